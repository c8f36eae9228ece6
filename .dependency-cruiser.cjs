// The direction of imports between the directories of src, as in docs/architecture.md.
const allowed = {
  base: [],
  api: ["base"],
  kube: ["base", "api"],
  store: ["base", "api"],
  csi: ["base"],
  cell: ["base", "api", "store"],
  backends: ["base", "api", "kube", "store", "cell/client"],
  claim: ["base", "api", "kube"],
  operations: ["base", "api", "kube", "claim"],
  preflight: ["base", "api", "kube"],
  install: ["base", "api"],
  controllers: ["base", "api", "kube", "backends", "claim", "registry"],
  registry: ["base", "api"],
  gateway: ["base", "api", "kube", "cell/client"],
  "client-api": ["base", "api", "kube", "claim", "operations", "cell/client"],
};
const folderRules = Object.entries(allowed).map(([folder, targets]) => ({
  name: `${folder}-imports`,
  severity: "error",
  comment: `src/${folder} may import ${targets.length ? targets.map((t) => `src/${t}`).join(", ") : "nothing of ours"}`,
  from: { path: `^src/${folder}/` },
  to: { path: "^src/", pathNot: [folder, ...targets].map((t) => `^src/${t}(/|\\.ts$)`) },
}));
// Controllers share code by src/controllers/common only.
const controllers = ["checkpoint", "sandbox", "sandbox-set", "sandbox-claim", "named-snapshot", "collect"];
const controllerRules = ["common", ...controllers].map((name) => ({
  name: `controller-${name}-imports`,
  severity: "error",
  comment: `src/controllers/${name} may import only itself and src/controllers/common within src/controllers`,
  from: { path: `^src/controllers/${name}/` },
  to: { path: "^src/controllers/", pathNot: [name, "common"].map((d) => `^src/controllers/${d}/`) },
}));
module.exports = {
  forbidden: [
    ...folderRules,
    ...controllerRules,
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
      to: { path: "^(src|components)/", pathNot: "^src/(base|api|kube|preflight|registry)/" },
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
