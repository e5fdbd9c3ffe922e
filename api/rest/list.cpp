#include "api/rest/list.h"

#include "api/kinds/json_access.h"
#include "api/kinds/yaml.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::size_t chunk = 64 << 10;

// Goes through a snapshot of the objects, a step at a time. What is known only at the end, whether
// there is another page, comes last in each form.
class ListStream : public BodyStream {
 public:
  ListStream(Snapshot snapshot, std::size_t limit, ObjectFilter filter, Rendering rendering,
             Time now)
      : objects_(std::move(snapshot.objects)),
        limit_(limit),
        revision_(snapshot.revision),
        filter_(std::move(filter)),
        rendering_(std::move(rendering)),
        now_(now) {}

  State read(std::string& out) final {
    if (next_ == 0) begin(out);
    // Bounded by objects as well as by bytes: a filter may let nothing through.
    for (int step = 0; step < objects_per_turn && out.size() < chunk; ++step) {
      if (next_ == objects_.size()) {
        end(out);
        return State::end;
      }
      // Taken out of the list, so that the memory of old versions is freed on the way.
      const store::ObjectPtr object = std::move(objects_[next_++]);
      if (!filter_.matches(*object)) continue;
      if (limit_ != 0 && matched_ == limit_) {
        continuation_ = Continuation{revision_, last_.ns, last_.name};
        // Kubernetes: said only where it is known without looking at the rest.
        if (filter_.everything()) remaining_ = objects_.size() - next_ + 1;
        end(out);
        return State::end;
      }
      item(out, *object, matched_++ == 0);
      last_ = object->key();
    }
    return State::more;
  }

 protected:
  virtual void begin(std::string& out) = 0;
  virtual void item(std::string& out, const store::Object& object, bool first) = 0;
  virtual void end(std::string& out) = 0;

  const Rendering& rendering() const { return rendering_; }
  const ObjectFilter& filter() const { return filter_; }
  std::string continue_token() const { return continuation_ ? continuation_->token() : ""; }
  // metav1.ListMeta; at the end only.
  Json metadata() const {
    Json metadata{{"resourceVersion", std::to_string(revision_)}};
    if (continuation_) metadata["continue"] = continuation_->token();
    if (remaining_) metadata["remainingItemCount"] = *remaining_;
    return metadata;
  }
  Time now() const { return now_; }

 private:
  static constexpr int objects_per_turn = 200;
  std::vector<store::ObjectPtr> objects_;
  std::size_t next_ = 0;
  std::size_t matched_ = 0;
  std::size_t limit_;
  store::Revision revision_;
  store::Key last_;
  std::optional<Continuation> continuation_;
  std::optional<std::size_t> remaining_;
  ObjectFilter filter_;
  Rendering rendering_;
  Time now_;
};

class JsonList final : public ListStream {
 public:
  using ListStream::ListStream;

 private:
  void begin(std::string& out) override {
    const Kind& kind = rendering().kind;
    out += "{\"apiVersion\":\"" + kind.api_version(rendering().version) + "\",\"kind\":\"" +
           kind.kind + "List\",\"items\":[";
  }
  void item(std::string& out, const store::Object& object, bool first) override {
    if (!first) out += ",";
    rendering().append(object, out);
  }
  void end(std::string& out) override { out += "],\"metadata\":" + json_text(metadata()) + "}\n"; }
};

class YamlList final : public ListStream {
 public:
  using ListStream::ListStream;

 private:
  void begin(std::string& out) override {
    const Kind& kind = rendering().kind;
    out += "apiVersion: " + kind.api_version(rendering().version) + "\nkind: " + kind.kind +
           "List\nitems:";
  }
  void item(std::string& out, const store::Object& object, bool first) override {
    if (first) out += "\n";
    std::string indent = "- ";
    const std::string yaml = to_yaml(rendering().document(object));
    for (std::size_t start = 0; start < yaml.size();) {
      const auto end = std::min(yaml.find('\n', start), yaml.size() - 1) + 1;
      out += end - start > 1 ? indent + yaml.substr(start, end - start) : "\n";
      indent = "  ";
      start = end;
    }
    any_ = true;
  }
  void end(std::string& out) override {
    if (!any_) out += " []\n";
    out += to_yaml({{"metadata", metadata()}});
  }
  bool any_ = false;
};

class TableList final : public ListStream {
 public:
  using ListStream::ListStream;

 private:
  void begin(std::string& out) override {
    out += "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/" + rendering().wanted.table_version +
           "\",\"columnDefinitions\":" + json_text(column_definitions(rendering().kind)) +
           ",\"rows\":[";
  }
  void item(std::string& out, const store::Object& object, bool first) override {
    if (!first) out += ",";
    out += json_text(
        table_row(rendering().kind, rendering().document(object), rendering().row_object, now()));
  }
  void end(std::string& out) override { out += "],\"metadata\":" + json_text(metadata()) + "}\n"; }
};

class TextList final : public ListStream {
 public:
  using ListStream::ListStream;

 private:
  void begin(std::string&) override {
    const bool all_namespaces = rendering().kind.namespaced && !filter().ns();
    table_ = std::make_unique<TextTable>(rendering().kind, rendering().wide, all_namespaces);
  }
  void item(std::string&, const store::Object& object, bool) override {
    table_->add(*object.document(), now());
  }
  void end(std::string& out) override {
    if (!table_->empty()) {
      out += table_->to_string();
      if (const auto token = continue_token(); !token.empty()) {
        out += "There are more: continue=" + token + "\n";
      }
    } else if (filter().ns()) {
      out += "No resources found in " + *filter().ns() + " namespace.\n";
    } else {
      out += "No resources found\n";
    }
  }
  std::unique_ptr<TextTable> table_;
};

}  // namespace

Response list_response(const store::Store& store, const Scheduler& scheduler, ObjectFilter filter,
                       Rendering rendering, const Request& request) {
  const ListOptions options = ListOptions::of(request, store.revision());
  Snapshot snapshot = take_snapshot(store, filter, options);
  return list_response(std::move(snapshot), options.limit, std::move(filter), std::move(rendering),
                       scheduler.now());
}

Response list_response(Snapshot snapshot, std::size_t limit, ObjectFilter filter,
                       Rendering rendering, Time now) {
  const Form form = rendering.wanted.form;
  const auto make =
      [&]<typename Stream>(std::type_identity<Stream>) -> std::unique_ptr<BodyStream> {
    return std::make_unique<Stream>(std::move(snapshot), limit, std::move(filter),
                                    std::move(rendering), now);
  };
  Response response;
  switch (form) {
    case Form::json:
      response.stream = make(std::type_identity<JsonList>());
      break;
    case Form::yaml:
      response.content_type = "application/yaml";
      response.stream = make(std::type_identity<YamlList>());
      break;
    case Form::table:
      response.stream = make(std::type_identity<TableList>());
      break;
    case Form::text:
      response.content_type = "text/plain; charset=utf-8";
      response.stream = make(std::type_identity<TextList>());
      break;
  }
  return response;
}

}  // namespace virtset::api
