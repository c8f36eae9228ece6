export type { Manifest } from "../../src/install/manifests.ts";
export type { Right } from "../../src/install/rights.ts";
