import { request } from "node:http";
import { text } from "node:stream/consumers";
import * as z from "zod";

/** Bytes as base64, as etcd's JSON gateway has them. */
type Key = string;
interface Entry {
  value: string;
  version: string;
}

/** How the database differs from an earlier state. Keys are paths such as `/registry/pods/default/a`. */
export interface Difference {
  added: string[];
  changed: string[];
  removed: string[];
}

/** The objects of an API server in etcd, of which a state can be kept and restored. */
export class EtcdDatabase {
  readonly #socket: string;
  #kept = new Map<Key, Entry>();

  /** @param socket the path of etcd's Unix socket */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Makes the current state the one that `restore` writes. */
  async keep(): Promise<void> {
    this.#kept = await this.#read();
  }

  /** Compares the current state with the one that was kept. */
  async compare(): Promise<Difference> {
    const now = await this.#read();
    return {
      added: [...now.keys()].filter((key) => !this.#kept.has(key)).map(pathOf),
      changed: [...now]
        .filter(([key, { version }]) => isOther(this.#kept.get(key), version))
        .map(([key]) => pathOf(key)),
      removed: [...this.#kept.keys()].filter((key) => !now.has(key)).map(pathOf),
    };
  }

  /** Writes the state that was kept. The API server observes each change as if another API server had made it. */
  async restore({ added, changed, removed }: Difference): Promise<void> {
    const deletions = added.map((path) => ({ requestDeleteRange: { key: keyOf(path) } }));
    const writes = [...changed, ...removed].map((path) => {
      const key = keyOf(path);
      return { requestPut: { key, value: this.#kept.get(key)?.value ?? "" } };
    });
    const operations = [...deletions, ...writes];
    for (let from = 0; from < operations.length; from += mostOperations)
      await this.#post("kv/txn", { success: operations.slice(from, from + mostOperations) });
    if (writes.length > 0) await this.keep();
  }

  async #read(): Promise<Map<Key, Entry>> {
    const range = { key: keyOf("/registry/"), range_end: keyOf("/registry0") };
    const { kvs } = Range.parse(await this.#post("kv/range", range));
    const entries = kvs.filter(({ key }) => !renewed.some((prefix) => pathOf(key).startsWith(prefix)));
    return new Map(entries.map(({ key, value, mod_revision: version }) => [key, { value, version }]));
  }

  #post(path: string, body: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const sent = request({ socketPath: this.#socket, path: `/v3/${path}`, method: "POST" }, (response) => {
        text(response).then((answer) => {
          if (response.statusCode === 200) resolve(JSON.parse(answer));
          else reject(new Error(`etcd answered ${response.statusCode ?? 0}: ${answer}`));
        }, reject);
      });
      sent.once("error", reject);
      sent.end(JSON.stringify(body));
    });
  }
}

const Range = z.object({
  kvs: z.array(z.object({ key: z.string(), value: z.string().default(""), mod_revision: z.string() })).default([]),
});

/** The objects that the API server itself renews. */
const renewed = ["/registry/leases/kube-system/", "/registry/masterleases/", "/registry/peerserverleases/"];

/** etcd's limit for one transaction is 128. */
const mostOperations = 100;

function isOther(kept: Entry | undefined, version: string): boolean {
  return kept !== undefined && kept.version !== version;
}

function keyOf(path: string): Key {
  return Buffer.from(path).toString("base64");
}

function pathOf(key: Key): string {
  return Buffer.from(key, "base64").toString();
}
