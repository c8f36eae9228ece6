import { parseDuration } from "../../base/duration.ts";
import { clientApiMetrics } from "../../client-api/metrics.ts";
import { runClientApi } from "../../client-api/run.ts";
import { parseServedNamespaces } from "../../install/install-options.ts";
import type { Settings } from "../../install/setting-values.ts";
import type { Io } from "../io.ts";
import { listening, runServerProcess } from "./server-process.ts";

/** `ramet client-api`: serves the APIs of clients until it receives a signal. */
export function runClientApiProcess(io: Io, settings: Settings<"client-api">): Promise<number> {
  const { servedNamespaces: served, clientApi } = settings;
  const { domain, gateway, templateAliases = [], maxTimeout } = clientApi;
  const servedNamespaces = served && parseServedNamespaces(served, "client-api");
  const metrics = clientApiMetrics();
  return runServerProcess(io, { name: "client-api", settings, metrics }, ({ setReady, ...context }) =>
    runClientApi({
      ...context,
      ...listening("the client API", clientApi, { setReady, log: context.log }),
      domain,
      gateway,
      servedNamespaces,
      templateAliases: new Map(templateAliases.map((alias) => alias.toLowerCase().split("=") as [string, string])),
      ...(maxTimeout !== undefined && { maxLifeSeconds: Math.floor(parseDuration(maxTimeout) / 1000) }),
    }),
  );
}
