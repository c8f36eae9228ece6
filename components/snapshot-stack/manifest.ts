export type { Manifest } from "../../src/install/manifest.ts";
export type { Right } from "../../src/install/rights.ts";
