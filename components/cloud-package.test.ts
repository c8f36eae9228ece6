import { expect, it } from "vitest";
import { cloudPackage } from "./cloud-package.ts";

it("names the missing package and how to install it", async () => {
  const absent = "@pulumi/missing-cloud";
  const loaded = cloudPackage(absent, () => import(absent) as Promise<{ default: unknown }>);
  await expect(loaded).rejects.toThrow(
    /@pulumi\/missing-cloud, which this cloud needs, is not installed.*npm install @pulumi\/missing-cloud/,
  );
});

it("passes on any other error of a package", async () => {
  const broken = (): Promise<{ default: unknown }> => Promise.reject(new Error("broken inside"));
  await expect(cloudPackage("@pulumi/aws", broken)).rejects.toThrow(/^broken inside$/);
});
