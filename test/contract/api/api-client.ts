import { setTimeout as wait } from "node:timers/promises";
import { Agent, fetch } from "undici";
import { kinds, renderCrds } from "../../../src/api/kinds/crd.ts";
import type { TestControlPlane } from "../../setup/control-plane.ts";

export interface ApiResponse {
  status: number;
  body: Record<string, unknown>;
}
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: Record<string, unknown>;
  [field: string]: unknown;
}

/** Calls an API server over plain HTTP, without Ramet code, so that the tests check the server's own responses. */
export class ApiClient {
  private readonly dispatcher: Agent;
  private readonly server: string;

  constructor({ server, ca, adminCert, adminKey }: TestControlPlane) {
    this.server = server;
    this.dispatcher = new Agent({ connect: { ca, cert: adminCert, key: adminKey } });
  }

  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<ApiResponse> {
    const response = await fetch(this.server + path, {
      method,
      dispatcher: this.dispatcher,
      headers: { "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    // For a path that it does not serve (yet), the server responds in plain text.
    const parsed = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : { message: text };
    return { status: response.status, body: parsed };
  }

  /** Server-side apply, like `kubectl apply --server-side`. Creates objects without a name. */
  apply(manifest: Manifest, options = "dryRun=All"): Promise<ApiResponse> {
    const { name } = manifest.metadata;
    const query = `fieldValidation=Strict&fieldManager=test&${options}`;
    if (typeof name !== "string") return this.call("POST", `${collection(manifest.kind)}?${query}`, manifest);
    const headers = { "content-type": "application/apply-patch+yaml" };
    return this.call("PATCH", `${collection(manifest.kind)}/${name}?${query}`, manifest, headers);
  }

  /** Installs the CRDs and waits until the server serves them. */
  async install(): Promise<void> {
    const base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (const crd of renderCrds()) {
      const { status, body } = await this.call("POST", base, crd);
      if (status !== 201) throw new Error(`${crd.metadata.name}: ${JSON.stringify(body["message"])}`);
    }
    for (let attempt = 0; attempt < 1200; attempt += 1) {
      const responses = await Promise.all(kinds.map(({ kind }) => this.call("GET", collection(kind))));
      if (responses.every(({ status }) => status === 200)) return;
      await wait(50);
    }
    throw new Error("The kinds were not served within a minute");
  }

  close(): Promise<void> {
    return this.dispatcher.close();
  }
}

export function collection(kind: string): string {
  const found = kinds.find((one) => one.kind === kind);
  if (found === undefined) throw new Error(`no such kind: ${kind}`);
  return `/apis/${found.apiVersion}/namespaces/default/${found.plural}`;
}
