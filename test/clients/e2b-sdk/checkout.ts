import { join } from "node:path";
import { isFile } from "./is-file.ts";

/** A repository of E2B with the SDKs whose tests run. */
export interface Checkout {
  path: string;
  kind: "e2b" | "code-interpreter";
  javascript: { directory: string; package: string; projects: readonly string[] };
  python: { directory: string };
}

/** @throws if the directory is no checkout of one of the repositories */
export async function readCheckout(path: string): Promise<Checkout> {
  if (await isFile(join(path, "packages", "js-sdk", "package.json"))) {
    return {
      path,
      kind: "e2b",
      // The other projects need a browser or another runtime.
      javascript: {
        directory: join(path, "packages", "js-sdk"),
        package: "e2b",
        projects: ["unit", "template", "connectionConfig"],
      },
      python: { directory: join(path, "packages", "python-sdk") },
    };
  }
  if (await isFile(join(path, "chart_data_extractor", "package.json"))) {
    return {
      path,
      kind: "code-interpreter",
      javascript: { directory: join(path, "js"), package: "@e2b/code-interpreter", projects: [] },
      python: { directory: join(path, "python") },
    };
  }
  throw new Error(`${path} is neither a checkout of e2b-dev/E2B nor of e2b-dev/code-interpreter`);
}
