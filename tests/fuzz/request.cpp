// Requests to a daemon's API, without its sockets. Each input meets one that has just started with
// a few objects, and may have several requests, separated by "====", see request_text.h. Beside the
// methods of HTTP there are
//   WAIT 60000   time goes on, by milliseconds, so that watches end and give bookmarks
//   DISK full    commits fail; or, for "held", wait until there is a line with anything else
//
// Promised is: a request is answered once, with a status, in the form that the type says; an answer
// that refuses has changed nothing; streams come to their end or wait, and wake who reads them.

#include <spdlog/spdlog.h>

#include <memory>
#include <optional>

#include "api/kinds/admission.h"
#include "api/rest/rest_api.h"
#include "tests/fakes/manual_scheduler.h"
#include "tests/fakes/memory_committer.h"
#include "tests/fuzz/request_text.h"

using namespace virtset;

namespace {

using State = api::BodyStream::State;

// Before any input.
constexpr std::string_view first_requests = R"(POST /api/v1/namespaces

{"metadata":{"name":"default"}}
====
POST /api/v1/namespaces/default/configmaps

{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}
====
PATCH /api/v1/namespaces/default/configmaps/applied?fieldManager=kubectl
content-type: application/apply-patch+yaml

{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"k":"v"}}
====
POST /apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets

{"metadata":{"name":"web"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
"template":{"metadata":{"labels":{"app":"web"}},"spec":{"domain":{"devices":{}}}}}}
====
POST /apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances

{"metadata":{"name":"vm"},"spec":{"domain":{"devices":{},"memory":{"guest":"64Mi"}}}}
)";
constexpr std::size_t most_requests = 8;
constexpr int most_reads = 1000;

// A request and what has come of it so far.
struct Exchange {
  api::Request request;
  int answers = 0;
  api::Response response;
  bool woken = true;
};

bool is_json(const api::Response& response) { return response.content_type == "application/json"; }

class Daemon {
 public:
  explicit Daemon(const test::Disk& disk) : first_revision_(disk.revision), disk_(disk) {
    scheduler_.emplace();
    auto committer = std::make_unique<test::MemoryCommitter>(disk_);
    committer_ = committer.get();
    store_.emplace(std::move(committer), disk_.contents(),
                   [](std::function<void()> action) { scheduler_->post(std::move(action)); });
    // Takes long to make, and says nothing of the store; that always stands at the same address.
    if (!api_) api_.emplace(*store_, api::builtin_kinds(), *scheduler_);
  }
  ~Daemon() {
    exchanges_.clear();
    store_.reset();
    scheduler_.reset();
  }

  void run(std::string_view input) {
    for (std::size_t i = 0; i < most_requests && !input.empty(); ++i) {
      step(fuzz::read_request(fuzz::take(input, fuzz::next_part)));
    }
    set_disk("fine");
    for (const auto& exchange : exchanges_) {
      fuzz::require(exchange->answers == 1, "a request is answered once", exchange->request.path);
    }
    for (const auto& [key, object] : disk_.rows) {
      if (object->revision() > first_revision_) check_stored(*object);
    }
  }
  const test::Disk& disk() const { return disk_; }

 private:
  void step(api::Request request) {
    if (request.method == "WAIT") {
      constexpr long longest = 2 * 3600 * 1000;
      const long wait = std::strtol(request.path.c_str(), nullptr, 10);
      scheduler_->advance(std::chrono::milliseconds(std::clamp(wait, 0L, longest)));
    } else if (request.method == "DISK") {
      set_disk(request.path);
    } else {
      send(std::move(request));
    }
    for (const auto& exchange : exchanges_) read(*exchange);
  }

  void set_disk(std::string_view how) {
    committer_->held = how == "held";
    committer_->failing = how == "full";
    if (!committer_->held) committer_->release();
    scheduler_->run();
  }

  void send(api::Request request) {
    exchanges_.push_back(std::make_shared<Exchange>(Exchange{.request = std::move(request)}));
    const auto exchange = exchanges_.back();
    const store::Revision before = store_->revision();
    api_->handle(exchange->request, [exchange](api::Response response) {
      ++exchange->answers;
      fuzz::require(exchange->answers == 1, "a request is answered once");
      exchange->response = std::move(response);
      if (!exchange->response.stream) return;
      exchange->response.stream->on_wake([raw = exchange.get()] { raw->woken = true; });
    });
    scheduler_->run();
    if (committer_->held) return;
    fuzz::require(exchange->answers == 1, "a request is answered", exchange->request.path);
    const api::Response& response = exchange->response;
    fuzz::require(response.status >= 200 && response.status < 600, "there is a status");
    fuzz::require(response.status != 500, "nothing happens that nobody expected", response.body);
    fuzz::require(response.status < 400 || store_->revision() == before ||
                      exchange->request.method == "DELETE",
                  "what refuses a request has changed nothing", response.body);
    if (!response.stream) check_document(*exchange, response.body);
  }

  void check_document(const Exchange& exchange, const std::string& body) {
    // Some hundred kilobytes, which are the same each time.
    if (exchange.request.path.find("openapi") != std::string::npos) return;
    if (is_json(exchange.response)) {
      fuzz::require(fuzz::Json::accept(body), "an answer is JSON where it says so", body);
    } else if (exchange.response.content_type == "application/yaml") {
      try {
        static_cast<void>(api::parse_yaml(body));
      } catch (const api::BadYaml& bad) {
        fuzz::require(false, bad.what(), body);
      }
    }
  }

  // What was taken can be read from the disk, and is taken again as it is.
  static void check_stored(const store::Object& object) {
    const fuzz::Json& document = *object.document();
    fuzz::require(fuzz::Json::parse(object.text()) == document,
                  "what is on the disk is what is served", object.text());
    const store::Key& key = object.key();
    const api::Kind& kind = *api::builtin_kinds().find(key.group, key.kind);
    try {
      const auto again =
          api::admit_change(kind, document, document, api::Part::all, api::FieldValidation::strict);
      fuzz::require(again.object == document, "what is stored stays as it is",
                    object.text() + "\n" + api::json_text(again.object));
    } catch (const api::ApiError& error) {
      fuzz::require(false, "what is stored is taken again", error.what() + ("\n" + object.text()));
    }
  }

  void read(Exchange& exchange) {
    if (!exchange.response.stream) return;
    const bool woken = std::exchange(exchange.woken, false);
    std::string text;
    State state = State::more;
    for (int i = 0; i < most_reads && state == State::more; ++i) {
      state = exchange.response.stream->read(text);
    }
    fuzz::require(state != State::more, "a stream ends or waits", exchange.request.path);
    const bool live = exchange.response.live;
    fuzz::require(live || state == State::end, "a list ends", exchange.request.path);
    fuzz::require(woken || (state == State::wait && text.empty()),
                  "who reads is woken where there is something to read", text);
    if (live && is_json(exchange.response)) {
      for (std::string_view rest = text; !rest.empty();) {
        const std::string_view line = fuzz::take(rest, "\n");
        fuzz::require(fuzz::Json::accept(line), "each line of a watch is JSON", line);
      }
    } else if (!live) {
      check_document(exchange, text);
    }
    if (state == State::end) exchange.response.stream.reset();
  }

  static std::optional<test::ManualScheduler> scheduler_;
  static std::optional<store::Store> store_;
  static std::optional<api::RestApi> api_;
  const store::Revision first_revision_;
  test::Disk disk_;
  test::MemoryCommitter* committer_ = nullptr;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

std::optional<test::ManualScheduler> Daemon::scheduler_;
std::optional<store::Store> Daemon::store_;
std::optional<api::RestApi> Daemon::api_;

test::Disk make_first_disk() {
  spdlog::set_level(spdlog::level::off);
  Daemon daemon{{}};
  daemon.run(first_requests);
  fuzz::require(daemon.disk().rows.size() == 5, "the first requests are granted");
  return daemon.disk();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::Disk disk = make_first_disk();
  Daemon(disk).run(fuzz::view(data, size));
  return 0;
}
