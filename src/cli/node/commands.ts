import type { RametCommand } from "../ramet-command.ts";

export function nodeCommands(program: RametCommand): void {
  const node = program
    .command("node")
    .description("Prepare the maintenance of nodes.")
    .examples("ramet node drain --plan node-1");
  node
    .command("drain")
    .description("Show what a drain of a node does to its sandboxes, and how long it takes.")
    .argument("<node>", "the node")
    .requiredOption("--plan", "print what will happen, and change nothing; drain with: kubectl drain")
    .formats()
    .clusterFlags()
    .examples("ramet node drain --plan node-1", "ramet node drain --plan node-1 -o json")
    .usesCluster(async () => (await import("./print-drain-plan.ts")).printDrainPlan, "node");
}
