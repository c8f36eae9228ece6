import { expect, it } from "vitest";
import { kubernetesPlugin, missingPrograms } from "../engine/find-pulumi.ts";

it("finds pulumi and its plugins on the PATH", async (context) => {
  const missing = await missingPrograms();
  if (missing.length > 0) {
    const skipped = missing.every((program) => program === kubernetesPlugin)
      ? "Programs with objects of Kubernetes"
      : "Programs";
    const why = `${skipped} are not run by pulumi, because the PATH lacks ${missing.join(" and ")}. Install what is missing, in a version that the SDK of package.json can speak to, and put it on the PATH`;
    console.log(`\n${why}.\n`);
    context.skip(why);
  }
  expect(missing).toEqual([]);
});
