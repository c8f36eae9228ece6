import { NamedSnapshot, run, SandboxClone, SandboxSet, SandboxTemplate } from "ramet";

/** A hundred objects: one template, and 33 of each other kind. */
const base = new SandboxTemplate("base", { image: "python" });
for (let number = 0; number < 33; number++) {
  const data = new NamedSnapshot(`data-${number}`, { from: base, recipe: [run(`echo ${number}`)] });
  new SandboxSet(`pool-${number}`, { from: data, replicas: 1 });
  new SandboxClone(`dev-${number}`, { from: data });
}
