// Does what it is told in JSON, a command to a line, and says in JSON what came of it. The tests decide.
import * as k8s from "@kubernetes/client-node";
import { createInterface } from "node:readline";

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const informers = {};

const commands = {
  // One method of one of its APIs.
  async call({ api, method, parameters, contentType }) {
    const options = contentType && k8s.setHeaderOptions("Content-Type", contentType);
    say({ result: (await config.makeApiClient(k8s[api])[method](parameters, options)) ?? null });
  },

  // Keeps a copy of all objects of a kind, and starts anew after an error, as its documentation says.
  async inform({ name, path, apiVersion, kind, namespace }) {
    const objects = config.makeApiClient(k8s.KubernetesObjectApi);
    const informer = k8s.makeInformer(config, path, () => {
      say({ informer: name, event: "list" });
      return objects.list(apiVersion, kind, namespace);
    });
    informers[name] = informer;
    for (const event of ["add", "update", "delete"])
      informer.on(event, (object) => say({ informer: name, event, object: seen(object) }));
    informer.on("connect", () => say({ informer: name, event: "connect" }));
    informer.on("error", (error) => {
      say({ informer: name, event: "error", error: String(error?.message ?? error) });
      setTimeout(() => informer.start().catch(retry(name)), 100);
    });
    await informer.start().catch(retry(name));
  },

  // The informer's copy.
  state({ name }) {
    say({ state: informers[name].list().map(seen) });
  },

  async watch({ path, query }) {
    const watch = new k8s.Watch(config);
    const request = await watch.watch(
      path, query,
      (type, object) => say({ watch: type, object: type === "ERROR" ? object : seen(object) }),
      (error) => say({ watch: "END", error: error ? String(error.message ?? error) : null }));
    informers.watch = { stop: () => request.abort() };
  },

  stop({ name }) {
    informers[name].stop();
  },
};

const seen = ({ metadata, data, spec }) =>
  ({ name: metadata.name, revision: metadata.resourceVersion, value: data?.value ?? String(spec?.replicas) });

const retry = (name) => (error) => {
  say({ informer: name, event: "error", error: String(error?.message ?? error) });
  setTimeout(() => informers[name].start().catch(retry(name)), 100);
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: command, ...how } = JSON.parse(line);
  try {
    await commands[command](how);
  } catch (error) {
    say({ error: { code: error.code, body: error.body, message: error.message } });
  }
}
process.exit(0);
