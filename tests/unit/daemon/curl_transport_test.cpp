// Probes of real servers on the loopback interface.

#include "daemon/curl_transport.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "daemon/loop.h"

namespace virtset::test {
namespace {

using api::ProbeSpec;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// A TCP port on 127.0.0.1, bound; listening only if it is to accept connections.
class Port {
 public:
  explicit Port(bool listening = true) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(fd_, generic, size) != 0 || (listening && listen(fd_, 128) != 0)) {
      throw std::runtime_error("cannot listen");
    }
    getsockname(fd_, generic, &size);
    number_ = ntohs(address.sin_port);
  }
  ~Port() { close(fd_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  int fd() const { return fd_; }
  int number() const { return number_; }

 private:
  int fd_;
  int number_ = 0;
};

// Answers "GET /<status>…" with that status; a redirect points to /200.
class HttpServer {
 public:
  HttpServer() : thread_([this] { serve(); }) {}
  ~HttpServer() {
    shutdown(port_.fd(), SHUT_RDWR);
    thread_.join();
  }
  int port() const { return port_.number(); }
  // Only once all probes are done.
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  void serve() {
    for (;;) {
      const int client = accept(port_.fd(), nullptr, nullptr);
      if (client < 0) return;
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = read(client, buffer, sizeof buffer);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
      }
      const auto slash = request.find('/');
      requests_.push_back(request);
      if (slash != std::string::npos) {
        const std::string answer = "HTTP/1.1 " + request.substr(slash + 1, 3) +
                                   " Whatever\r\nLocation: /200\r\nContent-Length: 5\r\n"
                                   "Connection: close\r\n\r\nhello";
        (void)!send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
      }
      close(client);
    }
  }

  Port port_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

class CurlTransportTest : public testing::Test {
 protected:
  // Runs the loop until all attempts are done; a minute is for ever.
  std::vector<std::string> probe(const std::vector<ProbeSpec>& specs) {
    std::vector<std::string> failures(specs.size(), "not done");
    std::vector<std::unique_ptr<ProbeTransport::Attempt>> attempts(specs.size());
    std::size_t left = specs.size();
    CurlTransport transport(loop_.raw());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      attempts[i] = transport.start(specs[i], "127.0.0.1", [&, i](const std::string& failure) {
        failures[i] = failure;
        attempts[i].reset();
        if (--left == 0) loop_.stop();
      });
      EXPECT_EQ(failures[i], "not done");
    }
    const auto deadline = loop_.after(seconds(60), [this] { loop_.stop(); });
    loop_.run();
    attempts.clear();
    return failures;
  }
  std::string probe(const ProbeSpec& spec) { return probe(std::vector{spec}).front(); }
  static ProbeSpec http(int port, const std::string& path) {
    return {.type = ProbeSpec::Type::http,
            .port = port,
            .scheme = "http",
            .path = path,
            .timeout = seconds(30)};
  }

  Loop loop_;
};

TEST_F(CurlTransportTest, StatusesFrom200To399AreSuccess) {
  const HttpServer server;
  for (const char* path : {"/200", "/204", "/301", "/399"}) {
    EXPECT_THAT(probe(http(server.port(), path)), IsEmpty()) << path;
  }
  for (const char* status : {"400", "404", "500", "503"}) {
    EXPECT_EQ(probe(http(server.port(), std::string("/") + status)),
              std::string("HTTP probe failed with statuscode: ") + status);
  }
}

TEST_F(CurlTransportTest, RedirectsAreNotFollowed) {
  const HttpServer server;
  EXPECT_THAT(probe(http(server.port(), "/302")), IsEmpty());
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST_F(CurlTransportTest, SendsPathAndHeadersAsTheySayInTheManifest) {
  const HttpServer server;
  ProbeSpec spec = http(server.port(), "/200/a b");
  spec.headers = {"X-Probe: yes", "Host: guest.example"};
  EXPECT_THAT(probe(spec), IsEmpty());
  ASSERT_THAT(server.requests(), SizeIs(1));
  EXPECT_THAT(server.requests()[0],
              AllOf(HasSubstr("GET /200/a%20b HTTP/1.1\r\n"), HasSubstr("X-Probe: yes\r\n"),
                    HasSubstr("Host: guest.example\r\n"), HasSubstr("User-Agent: kube-probe/")));
}

// The guest is on the host's own network, whatever the host's environment says.
TEST_F(CurlTransportTest, GoesThroughNoProxy) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const HttpServer server;
  EXPECT_THAT(probe(http(server.port(), "/200")), IsEmpty());
  unsetenv("http_proxy");
}

TEST_F(CurlTransportTest, OpenPortIsEnoughForTcp) {
  const Port port;
  EXPECT_THAT(probe(ProbeSpec{.port = port.number(), .timeout = seconds(30)}), IsEmpty());
}

TEST_F(CurlTransportTest, ClosedPortIsAFailure) {
  const Port port(false);
  EXPECT_THAT(probe(ProbeSpec{.port = port.number(), .timeout = seconds(30)}), Not(IsEmpty()));
  EXPECT_THAT(probe(http(port.number(), "/200")), Not(IsEmpty()));
}

// It is accepted by the kernel, and nobody answers.
TEST_F(CurlTransportTest, SilenceIsAFailureAfterTheTimeout) {
  const Port port;
  ProbeSpec spec = http(port.number(), "/200");
  spec.timeout = seconds(1);
  EXPECT_THAT(probe(spec), HasSubstr("Timeout"));
}

TEST_F(CurlTransportTest, ManyAtATimeHaveEachTheirOwnResult) {
  const HttpServer server;
  const Port closed(false);
  std::vector<ProbeSpec> specs;
  for (int i = 0; i < 50; ++i) {
    specs.push_back(http(i % 2 ? server.port() : closed.number(), "/200"));
  }
  const auto failures = probe(specs);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(failures[i].empty(), i % 2 == 1) << i;
}

TEST_F(CurlTransportTest, DestroyedAttemptTellsNothing) {
  const HttpServer server;
  std::vector<std::string> told;
  {
    CurlTransport transport(loop_.raw());
    auto given_up = transport.start(http(server.port(), "/200"), "127.0.0.1",
                                    [&](const std::string&) { told.push_back("given up"); });
    auto other = transport.start(http(server.port(), "/200"), "127.0.0.1", [&](const std::string&) {
      told.push_back("other");
      loop_.stop();
    });
    given_up.reset();
    const auto deadline = loop_.after(seconds(60), [this] { loop_.stop(); });
    loop_.run();
  }
  EXPECT_THAT(told, ElementsAre("other"));
}

TEST_F(CurlTransportTest, SendsTheQueryAndWhatIsEscapedAlreadyAsItIs) {
  const HttpServer server;
  for (const char* path : {"/200/a%20b?ready=1&x=%2F", "/200/../b", "/200?"}) {
    EXPECT_THAT(probe(http(server.port(), path)), IsEmpty());
  }
  EXPECT_THAT(server.requests(),
              ElementsAre(StartsWith("GET /200/a%20b?ready=1&x=%2F HTTP/1.1\r\n"),
                          StartsWith("GET /200/../b HTTP/1.1\r\n"), StartsWith("GET /200")));
}

TEST_F(CurlTransportTest, EscapesWhatMayNotStandInAUrl) {
  const HttpServer server;
  EXPECT_THAT(probe(http(server.port(), "/200/100%/\r\nX: y?q=\"\xc3\xa4\"")), IsEmpty());
  EXPECT_THAT(server.requests(),
              ElementsAre(StartsWith("GET /200/100%25/%0D%0AX:%20y?q=%22%C3%A4%22 HTTP/1.1\r\n")));
}

}  // namespace
}  // namespace virtset::test
