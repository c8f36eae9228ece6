/** How users reach Ramet. */
const clients = ["E2B", "AgentTier", "Sandbox0", "native", "MCP", "CLI", "kubectl", "Pulumi"] as const;
export type ClientName = (typeof clients)[number];

/** The path below which the routes of a dialect are, which the table leaves out. */
export const prefixes = { E2B: "", AgentTier: "/api/v1", Sandbox0: "/api/v1", native: "/ramet/v1" } as const;

/** The operations of `src/operations`. One without a row of the table is a type error. */
export const operations = {
  claim: "Create or claim a sandbox",
  awaitSandbox: "Wait until it serves",
  awaitSet: "Wait for a set",
  pause: "Pause",
  resume: "Resume",
  capture: "Capture",
  awaitCapture: "Wait for a capture",
  rollBack: "Restore in place",
  fork: "Fork while it runs",
  awaitBuild: "Build a named snapshot",
  uploadTree: "Upload files of a build",
} as const;
export type Operation = keyof typeof operations;

/** A route as `METHOD path`, a tool, a command, a kind or a resource; or the reason why there is none. */
export type Entry = string | { no: keyof typeof reasons };

const reasons = {
  create: "create a sandbox from the snapshot",
  declared: "a program declares what exists, not when something happens",
  operators: "sets belong to operators",
  checkpoint: "create a Checkpoint, and Sandboxes from it",
  clones: "clone the sandbox, which captures it",
  declare: "declare a NamedSnapshot",
  time: "set `when_over`, or delete it",
  copy: "write the content into the recipe",
} as const;

/** Which operation a client requests by what. */
export const dialectTable: Record<Operation, Record<ClientName, Entry>> = {
  claim: {
    ...same("POST /sandboxes"),
    MCP: "create_sandbox",
    CLI: "ramet sandbox create",
    kubectl: "SandboxClaim",
    Pulumi: "Sandbox",
  },
  awaitSandbox: {
    E2B: "POST /sandboxes",
    AgentTier: "GET /sandboxes/:id",
    Sandbox0: "GET /sandboxes/:id/status",
    native: "GET /sandboxes/:sandbox/wait",
    MCP: "create_sandbox",
    CLI: "ramet sandbox create",
    kubectl: "Sandbox",
    Pulumi: "Sandbox",
  },
  awaitSet: {
    ...same({ no: "operators" }),
    MCP: { no: "operators" },
    CLI: "ramet set scale",
    kubectl: "SandboxSet",
    Pulumi: "SandboxSet",
  },
  pause: {
    E2B: "POST /sandboxes/:sandboxID/pause",
    AgentTier: "POST /sandboxes/:id/stop",
    Sandbox0: "POST /sandboxes/:id/pause",
    native: "POST /sandboxes/:sandbox/pause",
    MCP: { no: "time" },
    CLI: "ramet sandbox pause",
    kubectl: "Sandbox",
    Pulumi: { no: "declared" },
  },
  resume: {
    E2B: "POST /sandboxes/:sandboxID/connect",
    AgentTier: "POST /sandboxes/:id/resume",
    Sandbox0: "POST /sandboxes/:id/resume",
    native: "POST /sandboxes/:sandbox/connect",
    MCP: "run_command",
    CLI: "ramet sandbox resume",
    kubectl: "Sandbox",
    Pulumi: { no: "declared" },
  },
  capture: {
    E2B: "POST /sandboxes/:sandboxID/snapshots",
    AgentTier: { no: "clones" },
    Sandbox0: "POST /sandboxes/:id/snapshots",
    native: "POST /sandboxes/:sandbox/checkpoints",
    MCP: "checkpoint",
    CLI: "ramet checkpoint create",
    kubectl: "Checkpoint",
    Pulumi: { no: "declared" },
  },
  awaitCapture: {
    E2B: "POST /sandboxes/:sandboxID/snapshots",
    AgentTier: { no: "clones" },
    Sandbox0: "POST /sandboxes/:id/snapshots",
    native: "GET /sandboxes/:sandbox/checkpoints/:checkpoint/wait",
    MCP: "wait",
    CLI: "ramet checkpoint wait",
    kubectl: "Checkpoint",
    Pulumi: { no: "declared" },
  },
  rollBack: {
    E2B: { no: "create" },
    AgentTier: { no: "create" },
    Sandbox0: "POST /sandboxes/:id/rootfs/restore",
    native: "POST /sandboxes/:sandbox/checkpoints/:checkpoint/restore",
    MCP: "restore",
    CLI: "ramet rollback",
    kubectl: "Sandbox",
    Pulumi: { no: "declared" },
  },
  fork: {
    E2B: "POST /sandboxes/:sandboxID/fork",
    AgentTier: "POST /sandboxes/:id/clone",
    Sandbox0: "POST /sandboxes/:id/fork",
    native: "POST /sandboxes/:sandbox/fork",
    MCP: "fork",
    CLI: "ramet fork",
    kubectl: { no: "checkpoint" },
    Pulumi: { no: "declared" },
  },
  awaitBuild: {
    E2B: "POST /v2/templates/:templateID/builds/:buildID",
    AgentTier: { no: "declare" },
    Sandbox0: "POST /templates/from-sandbox",
    native: { no: "declare" },
    MCP: "create_snapshot",
    CLI: "ramet snapshot apply",
    kubectl: "NamedSnapshot",
    Pulumi: "NamedSnapshot",
  },
  uploadTree: {
    E2B: "GET /templates/:templateID/files/:hash",
    AgentTier: { no: "declare" },
    Sandbox0: { no: "declare" },
    native: { no: "declare" },
    MCP: { no: "declare" },
    CLI: "ramet snapshot upload",
    kubectl: { no: "copy" },
    Pulumi: { no: "copy" },
  },
};

function same(entry: Entry) {
  return { E2B: entry, AgentTier: entry, Sandbox0: entry, native: entry };
}

/** A route of an API, and why Ramet does not have it and what to do instead: `what, because why: instead`. */
interface ListedRoute {
  method: string;
  path: string;
  unsupported?: string;
}
export type Listed = Readonly<Partial<Record<ClientName, readonly ListedRoute[]>>>;

/** The page of the reference, in Markdown. @param routes of the APIs whose missing routes it lists */
export function dialectPage(routes: Listed): string {
  const cell = (entry: Entry): string =>
    typeof entry === "string" ? `\`${entry}\`` : `no (${Object.keys(reasons).indexOf(entry.no) + 1})`;
  const rows = Object.entries(dialectTable).map(([name, row]) => [
    operations[name as Operation],
    ...clients.map((client) => cell(row[client])),
  ]);
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const table = [line(["operation", ...clients]), line(["---", ...clients.map(() => "---")]), ...rows.map(line)];
  const notes = Object.values(reasons).map((text, at) => `${at + 1}. ${text}`);
  return `# Operations and clients

Each operation, and the route, tool, command, kind or resource that requests it. Routes of AgentTier and Sandbox0 are below
\`/api/v1\`, those of the native API below \`/ramet/v1\`.

${table.join("\n")}

Without an entry:

${notes.join("\n")}

## Routes without support

These answer 501 with the sentence behind them. \`*\`: and all below; \`/*\`: all below.
${Object.entries(routes).map(unsupportedList).join("")}`;
}

/** An item for each reason. The methods of a path are together, and with those of the paths below it if they are the same. */
function unsupportedList([client, all]: [string, readonly ListedRoute[]]): string {
  const missing = all.filter(({ unsupported }) => unsupported !== undefined);
  const items = [...Map.groupBy(missing, ({ unsupported = "" }) => unsupported)].map(([reason, some]) => {
    const byPath = Map.groupBy(some, ({ path }) => path);
    const methods = (path: string) =>
      byPath
        .get(path)
        ?.map(({ method }) => method)
        .join(" ");
    const isWithBelow = (path: string) => methods(path) === methods(`${path}/*`);
    const listed = [...byPath.keys()].filter((path) => !path.endsWith("/*") || !isWithBelow(path.slice(0, -2)));
    const texts = listed.map((path) => `\`${methods(path)} ${path}${isWithBelow(path) ? "*" : ""}\``);
    return `- ${texts.join(", ")}: ${reason}`;
  });
  return `\n### ${client}\n\n${items.join("\n")}\n`;
}
