import { expect, it } from "vitest";
import { cloudPackage } from "./cloud-package.ts";

it("says which package is missing, and how to get it", async () => {
  const absent = "@pulumi/a-cloud-that-is-not-there";
  const loaded = cloudPackage(absent, () => import(absent) as Promise<{ default: unknown }>);
  await expect(loaded).rejects.toThrow(/@pulumi\/a-cloud-that-is-not-there is needed.*npm install @pulumi\/a-cloud/);
});

it("hides no other error of a package", async () => {
  const broken = (): Promise<{ default: unknown }> => Promise.reject(new Error("broken inside"));
  await expect(cloudPackage("@pulumi/aws", broken)).rejects.toThrow(/^broken inside$/);
});
