import { z } from "zod";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

const Data = z.record(z.string(), z.string()).nullish();
const Keyed = z.looseObject({ metadata: ObjectMeta, data: Data, binaryData: Data });

export interface ObjectRequest {
  namespace: string;
  name: string;
  optional: boolean;
}

/** Reads the ConfigMaps and Secrets that Pods name. */
export class PodObjects {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** The values by key; nothing for an object that is optional and not there. @throws RametError `NotFound` */
  async read(kind: "configMaps" | "secrets", request: ObjectRequest): Promise<Map<string, Buffer> | undefined> {
    const { namespace, name, optional } = request;
    const resource = this.#client.resource(coreResources[kind], (value) => Keyed.parse(value));
    const found = await resource.find({ namespace, name });
    if (found === undefined && optional) return undefined;
    if (found === undefined)
      throw new RametError("NotFound", `The ${coreResources[kind].kind} ${name} that the Pod names does not exist`, {
        hint: `Make it in namespace ${namespace}; the Pod is then started.`,
      });
    const base64 = (values: z.infer<typeof Data>): [string, Buffer][] =>
      Object.entries(values ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64")]);
    if (kind === "secrets") return new Map(base64(found.data));
    const plain = Object.entries(found.data ?? {}).map(([key, value]): [string, Buffer] => [key, Buffer.from(value)]);
    return new Map([...plain, ...base64(found.binaryData)]);
  }
}
