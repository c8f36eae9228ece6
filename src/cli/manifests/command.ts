import type { RametCommand } from "../ramet-command.ts";
import { settingsCommand } from "../server-options.ts";

export function manifestsCommand(program: RametCommand): void {
  settingsCommand(program, "manifests", async () => (await import("./manifests.ts")).printManifests)
    .description("Print the manifests that install the controllers and gateways, for kubectl apply and GitOps.")
    .examples(
      "ramet manifests --image example/ramet:1 --cell-image example/cell:1 --store s3://checkpoints | kubectl apply -f -",
      "ramet manifests --image example/ramet:1 --cell-image example/cell:1 --out ramet && kubectl apply -k ramet",
      "ramet manifests --image example/ramet:1 --beside=openkruise | kubectl apply -f -",
    );
}
