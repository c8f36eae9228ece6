// The direction of imports; the table stands in docs/architecture.md.
const allowed = {
  api: [],
  kube: ["api"],
  store: ["api"],
  cell: ["api", "store"],
  backends: ["api", "kube", "store", "cell/client"],
  controllers: ["api", "kube", "backends"],
  gateway: ["api", "kube"],
};
const folderRules = Object.entries(allowed).map(([folder, targets]) => ({
  name: `${folder}-imports`,
  severity: "error",
  comment: `src/${folder} may import ${targets.length ? targets.map((t) => `src/${t}`).join(", ") : "nothing of ours"}`,
  from: { path: `^src/${folder}/`, pathNot: "\\.test\\.ts$" },
  to: { path: "^src/", pathNot: [folder, ...targets].map((t) => `^src/${t}(/|\\.ts$)`) },
}));
module.exports = {
  forbidden: [
    ...folderRules,
    {
      name: "no-circular",
      severity: "error",
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only"] } },
    },
    {
      name: "local-is-top",
      severity: "error",
      from: { path: "^src/(?!local/|cli/)", pathNot: "\\.test\\.ts$" },
      to: { path: "^src/(local|cli)/" },
    },
    { name: "cli-is-top", severity: "error", from: { path: "^src/local/" }, to: { path: "^src/cli/" } },
    {
      name: "pulumi-imports",
      severity: "error",
      from: { path: "^(components|provider)/" },
      to: { path: "^src/", pathNot: "^src/api/" },
    },
    {
      name: "not-to-test",
      severity: "error",
      from: { path: "^(src|components|provider)/", pathNot: "\\.test\\.ts$" },
      to: { path: "^test/|\\.test\\.ts$" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: { extensions: [".ts", ".js", ".mjs"] },
  },
};
