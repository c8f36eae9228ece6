import { all, output, type CustomResource, type Output } from "@pulumi/pulumi";

/** What is told of a store, known when everything of what was made is there that its users need: identity, rights, and the bucket. */
export function whenStored<T>(
  made: Promise<Record<string, CustomResource>>,
  tell: (resources: Record<string, CustomResource>) => Output<T>,
): Output<T> {
  return output(made).apply((resources) => {
    const ofStore = Object.keys(resources).filter((key) => key.includes("/store"));
    return all([tell(resources), all(ofStore.map((key) => resources[key]?.id))]).apply(([told]) => told as T);
  });
}
