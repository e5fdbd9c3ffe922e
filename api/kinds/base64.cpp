#include "api/kinds/base64.h"

#include <openssl/evp.h>

#include <memory>

namespace virtset::api {

std::optional<std::string> decode_base64(std::string_view encoded) {
  const std::unique_ptr<EVP_ENCODE_CTX, decltype(&EVP_ENCODE_CTX_free)> context(
      EVP_ENCODE_CTX_new(), EVP_ENCODE_CTX_free);
  EVP_DecodeInit(context.get());
  std::string decoded(encoded.size() + 64, '\0');
  auto* out = reinterpret_cast<unsigned char*>(decoded.data());
  int written = 0;
  int rest = 0;
  const int result = EVP_DecodeUpdate(context.get(), out, &written,
                                      reinterpret_cast<const unsigned char*>(encoded.data()),
                                      static_cast<int>(encoded.size()));
  if (result < 0 || EVP_DecodeFinal(context.get(), out + written, &rest) < 0) return std::nullopt;
  decoded.resize(static_cast<std::size_t>(written + rest));
  return decoded;
}

std::string encode_base64(std::string_view bytes) {
  std::string encoded((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  encoded.resize(static_cast<std::size_t>(length));
  return encoded;
}

}  // namespace virtset::api
