import { expect, it } from "vitest";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { NamedSnapshotInputs } from "./inputs.ts";
import { deleteRecipeSecret } from "./recipe-secret.ts";

const owner = "org/agents/prod/data";
const inputs = (more: object = {}) =>
  NamedSnapshotInputs.parse({
    name: "data",
    namespace: "team-a",
    from: { template: { name: "base" } },
    recipe: [],
    timeout: "1h",
    owner,
    ...more,
  });

/** A cluster with one Secret, or without the right to read Secrets. */
function clusterWith(annotations: Record<string, string> | "forbidden") {
  const deleted: unknown[] = [];
  const find = () =>
    annotations === "forbidden"
      ? Promise.reject(new RametError("Forbidden", "secrets is forbidden"))
      : Promise.resolve({ metadata: { uid: "u", annotations } });
  const remove = (at: unknown) => Promise.resolve(deleted.push(at));
  return { client: { resource: () => ({ find, delete: remove }) } as unknown as KubeClient, deleted };
}

it("needs no right to read Secrets for a recipe without secrets", async () => {
  const { client } = clusterWith("forbidden");
  await deleteRecipeSecret(client, inputs());
  const withSecrets = deleteRecipeSecret(client, inputs({ secrets: { token: "text" } }));
  await expect(withSecrets).rejects.toMatchObject({ code: "Forbidden" });
});

it.each([
  ["its own, also of an earlier recipe", {}, { "ramet.dev/pulumi-resource": owner }, 1],
  ["one of an earlier release, which only the state knows", { secrets: { token: "text" } }, {}, 1],
  ["none that nobody declares", {}, {}, 0],
  ["none of another resource", { secrets: { token: "text" } }, { "ramet.dev/pulumi-resource": "others" }, 0],
])("deletes %s", async (_, more, annotations, count) => {
  const { client, deleted } = clusterWith(annotations);
  await deleteRecipeSecret(client, inputs(more));
  expect(deleted).toHaveLength(count);
});
