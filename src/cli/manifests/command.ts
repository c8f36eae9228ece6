import type { Command } from "commander";
import type { Act } from "../report-error.ts";
import { settingsFrom, withSettings } from "../server-options.ts";

/** `ramet manifests`. */
export function manifestsCommand(program: Command, act: Act): void {
  withSettings(program.command("manifests"), "manifests")
    .description("Print the manifests that install the controllers and gateways, for kubectl apply and GitOps.")
    .action(
      act(async (flags: Record<string, unknown>) => {
        const { printManifests } = await import("./manifests.ts");
        return (io) => printManifests(io, settingsFrom("manifests", flags));
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet manifests --image example/ramet:1 --cell-image example/cell:1 --store s3://checkpoints | kubectl apply -f -
  $ ramet manifests --image example/ramet:1 --cell-image example/cell:1 --out ramet && kubectl apply -k ramet
  $ ramet manifests --image example/ramet:1 --beside=openkruise | kubectl apply -f -
`,
    );
}
