import * as ramet from "ramet";

const runtime = new ramet.RametRuntime("ramet", { store: { directory: "/var/lib/ramet" } });
const container = { image: "python", resources: { cpu: "1", memory: "512Mi" } };
const python = new ramet.SandboxTemplate("python", container, { dependsOn: runtime });
const data = new ramet.NamedSnapshot("python-data", {
  from: python,
  recipe: [
    ramet.copy("./prepare.py", "/data/prepare.py"),
    ramet.run("python3 /data/prepare.py --rows 100000"),
    ramet.start("python3 -m http.server 8000"),
    ramet.waitFor({ port: 8000 }),
  ],
  keepVersions: 5,
});
new ramet.SandboxSet("pool", { from: data, replicas: 10 });
const dev = new ramet.SandboxClone("dev", { from: data, lifetime: "8 hours", publicPorts: [8000] });
export const { version, digest } = data;
export const { url } = dev;
