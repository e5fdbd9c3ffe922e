// Requests as bytes: where they end, what they are about, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/http/request_reader.h"
#include "api/http/target.h"

namespace virtset::test {
namespace {

using api::RequestReader;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// One line for each request: its method, target and body, or the code of what is wrong with it.
std::vector<std::string> read_all(RequestReader& reader, std::string_view text, std::size_t piece) {
  std::vector<std::string> all;
  while (true) {
    const std::string_view now = text.substr(0, piece);
    text.remove_prefix(now.size());
    bool complete = reader.read(now);
    while (complete) {
      const api::Incoming& incoming = reader.incoming();
      all.push_back(incoming.error ? std::to_string(incoming.error->code())
                                   : incoming.request.method + " " + incoming.target + " " +
                                         incoming.request.body);
      if (reader.broken()) return all;
      reader.next();
      complete = reader.read({});
    }
    if (text.empty()) return all;
  }
}

std::vector<std::string> read_all(std::string_view text, RequestReader::Limits limits = {}) {
  RequestReader reader(limits);
  auto all = read_all(reader, text, text.size());
  for (const std::size_t piece : {1, 2, 3, 7}) {
    RequestReader other(limits);
    EXPECT_EQ(read_all(other, text, piece), all) << "in pieces of " << piece;
  }
  return all;
}

// The error of a request with these lines after the first.
std::string refused(std::string_view lines) {
  RequestReader reader;
  const bool complete = reader.read("POST / HTTP/1.1\r\n" + std::string(lines) + "\r\n");
  if (!complete || !reader.incoming().error) return "";
  EXPECT_TRUE(reader.broken()) << lines;
  return std::to_string(reader.incoming().error->code()) + " " + reader.incoming().error->what();
}

api::Request target(std::string_view text) {
  api::Request request;
  api::set_target(text, request);
  return request;
}

std::string bad_target(std::string_view text) {
  try {
    return "none: " + target(text).path;
  } catch (const api::ApiError& error) {
    EXPECT_EQ(error.code(), 400) << text;
    return error.what();
  }
}

TEST(Http, RequestsAreTheSameHoweverTheyAreCut) {
  EXPECT_THAT(read_all("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
                       "\r\nPOST /b?c HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloPUT /d HTTP/1.1\r\n"
                       "transfer-encoding: Chunked\r\n\r\n"
                       "5;x=y\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
                       "DELETE /e HTTP/1.0\r\n\r\n"),
              ElementsAre("GET /a ", "POST /b?c hello", "PUT /d hello 0123456789", "DELETE /e "));
}

TEST(Http, HeadersThatAreLookedAt) {
  RequestReader reader;
  ASSERT_TRUE(
      reader.read("GET /a%20b?x=1 HTTP/1.1\r\naccept: one\r\nAccept: two\r\n"
                  "Content-Type:  three \r\nUSER-AGENT: four\r\nAccept-Encoding: gzip\r\n"
                  "Authorization: bEaReR  five\r\n\r\n"));
  const api::Incoming& incoming = reader.incoming();
  EXPECT_EQ(incoming.request.path, "/a b");
  EXPECT_THAT(incoming.request.query, ElementsAre(Pair("x", "1")));
  EXPECT_EQ(incoming.request.accept, "one, two");
  EXPECT_EQ(incoming.request.content_type, "three");
  EXPECT_EQ(incoming.request.user_agent, "four");
  EXPECT_EQ(incoming.accept_encoding, "gzip");
  EXPECT_EQ(incoming.token, "five");
  EXPECT_TRUE(incoming.keep_alive);
  EXPECT_FALSE(incoming.impersonates);

  reader.next();
  ASSERT_TRUE(
      reader.read("GET / HTTP/1.1\r\nConnection: Close\r\nAuthorization: Basic x\r\n"
                  "impersonate-extra-a: b\r\n\r\n"));
  EXPECT_EQ(incoming.request.accept + incoming.token, "");
  EXPECT_TRUE(incoming.request.query.empty());
  EXPECT_FALSE(incoming.keep_alive);
  EXPECT_TRUE(incoming.impersonates);
}

TEST(Http, ExpectationIsKnownBeforeTheBody) {
  RequestReader reader;
  EXPECT_FALSE(reader.read("PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r"));
  EXPECT_FALSE(reader.in_body());
  EXPECT_FALSE(reader.read("\n"));
  EXPECT_TRUE(reader.in_body());
  EXPECT_TRUE(reader.incoming().wants_continue);
  EXPECT_TRUE(reader.read("xG"));
  EXPECT_EQ(reader.incoming().request.body, "x");
  EXPECT_EQ(reader.kept(), 1u);
}

TEST(Http, LimitOfHeads) {
  const std::string begin = "GET / HTTP/1.1\r\nx: ";
  const std::string end = "\r\n\r\n";
  const std::size_t room = 200 - begin.size() - end.size();
  EXPECT_THAT(read_all(begin + std::string(room, 'x') + end, {.head = 200}), ElementsAre("GET / "));
  EXPECT_THAT(read_all(begin + std::string(room + 1, 'x') + end, {.head = 200}),
              ElementsAre("431"));
  std::string lines = "GET / HTTP/1.1\r\n";
  while (lines.size() < 300) lines += "x: y\r\n";
  EXPECT_THAT(read_all(lines, {.head = 200}), ElementsAre("431"));
  EXPECT_THAT(read_all("GET /" + std::string(200, 'x'), {.head = 200}), ElementsAre("431"));
}

TEST(Http, LimitOfBodies) {
  const std::string post = "POST / HTTP/1.1\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  const RequestReader::Limits limits{.body = 4};
  EXPECT_THAT(read_all(post + "Content-Length: 4\r\n\r\nabcd", limits), ElementsAre("POST / abcd"));
  EXPECT_THAT(read_all(post + "Content-Length: 5\r\n\r\n", limits), ElementsAre("413"));
  EXPECT_THAT(read_all(chunked + "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", limits),
              ElementsAre("POST / abcd"));
  EXPECT_THAT(read_all(chunked + "3\r\nabc\r\n2\r\nde", limits), ElementsAre("413"));
  EXPECT_THAT(read_all(chunked + "10000000000000000\r\nx"), ElementsAre("413"));
  EXPECT_THAT(read_all(chunked + "1\r\na\r\nffffffffffffffff\r\nx", limits), ElementsAre("413"));
}

TEST(Http, ChunksThatAreNone) {
  for (const char* body : {"\r\n\r\n", "x\r\n", "2\r\nabc\r\n", "-1\r\n", "0x1\r\na\r\n", "1\na\n",
                           "1 1\r\na\r\n", "1;a\tb\x01\r\na\r\n"}) {
    EXPECT_THAT(
        read_all("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(body)),
        ElementsAre("400"))
        << body;
  }
  const std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_THAT(read_all(chunked + std::string(5000, '0')), ElementsAre("400"));
  EXPECT_THAT(read_all(chunked + "0\r\n" + std::string(5000, 'x')), ElementsAre("400"));
  std::string trailers;
  while (trailers.size() < 5000) trailers += "x: y\r\n";
  EXPECT_THAT(read_all(chunked + "0\r\n" + trailers), ElementsAre("400"));
}

TEST(Http, TrailersAreNoHeaders) {
  RequestReader reader;
  ASSERT_TRUE(
      reader.read("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
                  "Authorization: Bearer x\r\nImpersonate-User: y\r\n\r\n"));
  EXPECT_EQ(reader.incoming().token, "");
  EXPECT_FALSE(reader.incoming().impersonates);
}

TEST(Http, TwoOpinionsAboutTheEndOfARequest) {
  EXPECT_THAT(refused("Content-Length: 1\r\nContent-Length: 1\r\n"), HasSubstr("Content-Length"));
  EXPECT_THAT(refused("Content-Length: 1\r\nContent-Length: 2\r\n"), HasSubstr("400"));
  EXPECT_THAT(refused("Content-Length: 1, 1\r\n"), HasSubstr("Content-Length"));
  for (const char* length : {"-1", "+1", "0x1", "", "1 1", "99999999999999999999"}) {
    EXPECT_THAT(refused("Content-Length: " + std::string(length) + "\r\n"), HasSubstr("400"))
        << length;
  }
  EXPECT_THAT(refused("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), HasSubstr("400"));
  EXPECT_THAT(refused("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"), HasSubstr("400"));
  EXPECT_THAT(refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
              HasSubstr("Transfer-Encoding"));
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, identity", "xchunked", ""}) {
    EXPECT_THAT(refused("Transfer-Encoding: " + std::string(coding) + "\r\n"), HasSubstr("501"))
        << coding;
  }
  EXPECT_THAT(read_all("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
              ElementsAre("400"));
}

TEST(Http, LinesThatAreNone) {
  EXPECT_THAT(refused("a: b\r\n c\r\n"), HasSubstr("begins with white space"));
  EXPECT_THAT(refused("a: b\nc: d\r\n"), HasSubstr("does not end with CR LF"));
  EXPECT_THAT(refused("a : b\r\n"), HasSubstr("the name of a header"));
  EXPECT_THAT(refused(": b\r\n"), HasSubstr("the name of a header"));
  EXPECT_THAT(refused("a\r\n"), HasSubstr("the name of a header"));
  EXPECT_THAT(refused("a: b\rc\r\n"), HasSubstr("400"));
  EXPECT_THAT(refused(std::string_view("a: b\0c\r\n", 8)), HasSubstr("the value of a header"));
  for (const char* line :
       {"GET / HTTP/1.2", "GET / HTTP/2.0", "GET /", "GET / x HTTP/1.1", "GET  / HTTP/1.1",
        "G(T / HTTP/1.1", "/ HTTP/1.1", "GET HTTP/1.1", "\x16\x03\x01", "GET /\t HTTP/1.1"}) {
    EXPECT_THAT(read_all(line + std::string("\r\n\r\n")), ElementsAre("400")) << line;
  }
}

TEST(Http, PathsAreTakenAsTheyAre) {
  EXPECT_EQ(target("/").path, "/");
  EXPECT_EQ(target("/a/b/").path, "/a/b/");
  EXPECT_EQ(target("/a%2Db/%c3%bc+").path, "/a-b/ü+");
  EXPECT_EQ(target("/...").path, "/...");
  EXPECT_EQ(target("http://host:1/a?b").path, "/a");
  EXPECT_EQ(target("HTTPS://host").path, "/");
  for (const char* path : {"/a/..", "/a/../b", "/%2e%2E", "/.", "/a/%2e", "/.%2e/"}) {
    EXPECT_THAT(bad_target(path), HasSubstr("dots are not resolved")) << path;
  }
  EXPECT_THAT(bad_target("/a/..%2f..%2fx"), HasSubstr("\"..%2f..%2fx\" has an escaped slash"));
  for (const char* path : {"/a/%00", "/keep%0a", "/one%00x", "/%7f", "/%1F"}) {
    EXPECT_THAT(bad_target(path), HasSubstr("has a control character")) << path;
  }
  for (const char* path : {"/%zz", "/%", "/a%2", "/%2g"}) {
    EXPECT_THAT(bad_target(path), HasSubstr("has a malformed % escape")) << path;
  }
  for (const char* path : {"//", "//a", "/a//b", "http://host//a"}) {
    EXPECT_THAT(bad_target(path), HasSubstr("empty segment")) << path;
  }
  for (const char* path : {"*", "host:1", "a", "ftp://host/a"}) {
    EXPECT_THAT(bad_target(path), HasSubstr("must be a path")) << path;
  }
}

TEST(Http, Parameters) {
  EXPECT_THAT(target("/?a=b&c&=d&&e=f=g&a%3Db=c+d%2b;h").query,
              ElementsAre(Pair("a", "b"), Pair("c", ""), Pair("", "d"), Pair("e", "f=g"),
                          Pair("a=b", "c d+;h")));
  EXPECT_THAT(target("/a?").query, ElementsAre());
  EXPECT_THAT(target("/a?/../?=%2f").query, ElementsAre(Pair("/../?", "/")));
  EXPECT_THAT(bad_target("/?labelSelector=%%%"),
              HasSubstr("the parameter \"labelSelector\" has a malformed % escape"));
  EXPECT_THAT(bad_target("/?%=a"), HasSubstr("malformed"));
  EXPECT_THAT(bad_target("/?a=%00"), HasSubstr("has a NUL"));
  EXPECT_THAT(bad_target("/?%00"), HasSubstr("has a NUL"));
}

}  // namespace
}  // namespace virtset::test
