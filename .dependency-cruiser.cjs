// The direction of imports between the directories of src, as in docs/architecture.md.
const allowed = {
  base: [],
  // The client for users runs everywhere, and knows nothing of the server.
  client: [],
  api: ["base"],
  kube: ["base", "api"],
  store: ["base", "api"],
  cell: ["base", "api", "store"],
  backends: ["base", "api", "kube", "store", "cell/client"],
  operations: ["base", "api", "kube"],
  preflight: ["base", "api", "kube"],
  install: ["base", "api"],
  controllers: ["base", "api", "kube", "backends", "operations", "registry"],
  registry: ["base", "api"],
  gateway: ["base", "api", "kube", "cell/client"],
  "client-api": ["base", "api", "kube", "operations", "cell/client"],
};
const folderRules = Object.entries(allowed).map(([folder, targets]) => ({
  name: `${folder}-imports`,
  severity: "error",
  comment: `src/${folder} may import ${targets.length ? targets.map((t) => `src/${t}`).join(", ") : "nothing of ours"}`,
  from: { path: `^src/${folder}/` },
  to: { path: "^src/", pathNot: [folder, ...targets].map((t) => `^src/${t}(/|\\.ts$)`) },
}));
// The kinds' controllers import only these subjects within src/controllers, and never each other.
const subjects = ["cluster", "volumes", "images", "nodes", "origin"];
const controllers = ["checkpoint", "sandbox", "sandbox-set", "sandbox-claim", "named-snapshot", "collect"];
const controllerRules = ["", ...controllers].map((name) => ({
  name: `controller-${name || "subject"}-imports`,
  severity: "error",
  comment: `src/controllers/${name || "subjects"} may import only ${subjects.join(", ")} within src/controllers`,
  from: { path: `^src/controllers/${name || `(${subjects.join("|")})`}/` },
  to: { path: "^src/controllers/", pathNot: [name, ...subjects].filter(Boolean).map((d) => `^src/controllers/${d}/`) },
}));
const dialects = ["agenttier", "e2b", "mcp", "native"];
const dialectRules = dialects.map((name) => ({
  name: `dialect-${name}-imports`,
  severity: "error",
  comment: "A dialect imports no other dialect",
  from: { path: `^src/client-api/dialects/${name}/` },
  to: { path: "^src/client-api/dialects/", pathNot: [`^src/client-api/dialects/${name}/`] },
}));
module.exports = {
  forbidden: [
    ...folderRules,
    ...controllerRules,
    ...dialectRules,
    {
      name: "no-circular",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    { name: "no-folder-cycles", severity: "error", scope: "folder", from: {}, to: { circular: true } },
    {
      name: "controllers-without-cell-backend",
      severity: "error",
      comment: "Controllers reach every backend through src/backends/backends.ts",
      from: { path: "^src/controllers/" },
      to: { path: "^src/backends/cell" },
    },
    {
      name: "local-is-top",
      severity: "error",
      from: { path: "^src/(?!local/|cli/)" },
      to: { path: "^src/(local|cli)/" },
    },
    { name: "cli-is-top", severity: "error", from: { path: "^src/local/" }, to: { path: "^src/cli/" } },
    {
      name: "components-imports",
      severity: "error",
      from: { path: "^components/" },
      to: { path: "^src/", pathNot: "^src/(base|api|install|registry)/" },
    },
    {
      name: "provider-imports",
      severity: "error",
      from: { path: "^provider/" },
      to: { path: "^(src|components)/", pathNot: "^src/(base|api|kube|operations|preflight|registry)/" },
    },
    {
      name: "policy-imports",
      severity: "error",
      from: { path: "^policy/" },
      to: { path: "^(src|components|provider)/", pathNot: "^src/(base|api)/|^provider/handlers/time-span\\.ts$" },
    },
    {
      name: "rules-without-pulumi",
      severity: "error",
      comment: "Only the shell, guardrails.ts, knows Pulumi",
      from: { path: "^policy/", pathNot: "^policy/guardrails\\.ts$" },
      to: { path: "(^|/)node_modules/@pulumi/" },
    },
    {
      name: "handlers-without-pulumi",
      severity: "error",
      comment: "Handlers are called by Pulumi's process, and know nothing of Pulumi",
      from: { path: "^provider/handlers/" },
      to: { path: "(^|/)node_modules/@pulumi/|^provider/(?!handlers/)" },
    },
    {
      name: "src-without-pulumi",
      severity: "error",
      from: { path: "^src/" },
      to: { path: "(^|/)node_modules/@pulumi/|^(components|provider|policy)/" },
    },
    {
      name: "not-to-test",
      severity: "error",
      from: { path: "^(src|components|provider|policy)/" },
      to: { path: "^test/" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "\\.test\\.ts$" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: { extensions: [".ts", ".js", ".mjs"] },
  },
};
