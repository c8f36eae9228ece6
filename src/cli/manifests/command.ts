import type { Command } from "commander";
import { withExamples } from "../options.ts";
import type { Act } from "../report-error.ts";
import { settingsCommand } from "../server-options.ts";

/** `ramet manifests`. */
export function manifestsCommand(program: Command, act: Act): void {
  withExamples(
    settingsCommand(program, "manifests", act, async () => (await import("./manifests.ts")).printManifests),
    "ramet manifests --image example/ramet:1 --cell-image example/cell:1 --store s3://checkpoints | kubectl apply -f -",
    "ramet manifests --image example/ramet:1 --cell-image example/cell:1 --out ramet && kubectl apply -k ramet",
    "ramet manifests --image example/ramet:1 --beside=openkruise | kubectl apply -f -",
  ).description("Print the manifests that install the controllers and gateways, for kubectl apply and GitOps.");
}
