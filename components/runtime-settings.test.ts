import { expectTypeOf, it } from "vitest";
import type { KeyOf } from "../src/install/setting-values.ts";
import type { SettingKey } from "../src/install/settings.ts";
import type { RametRuntimeArgs } from "./ramet-runtime.ts";

/** The settings that are no arguments of a program, and why. */
type Absent = Record<"beside", "the argument mode selects it"> &
  Record<"namespace", "a program installs into ramet-system"> &
  Record<"noClusterRanges", "it is clusterRanges: []"> &
  Record<"out", "a program writes no files"> &
  Record<`store.${"address" | AccessField}`, "they are in store.s3, store.gcs and store.azure"> &
  Record<"installCrds" | "leaderElect", "a program declares the CRDs and several replicas"> &
  Record<"context" | "logLevel" | `metrics${"Port" | "Address"}`, "the container of a server sets it"> &
  Record<`${"gateway" | "clientApi"}.${"port" | "address" | "shutdownDelay"}`, "the container of a server sets it"> &
  Record<
    `gateway.${"tlsCertificate" | "tlsKey" | "tlsOptional" | "clientApi"}` | "clientApi.gateway",
    "follows from gateway.tlsSecret and clientApi"
  > &
  Record<
    | `cells.${"engine" | "concurrentUpgrades" | "engineCheckInterval"}`
    | `clientApi.${"templateAliases" | "maxTimeout"}`
    | "store.verifyRestores"
    | "dnsUpstreams"
    | "concurrency"
    | "stepCacheBytes",
    "rarely set; the argument transform can add it to a container"
  >;
type AccessField = "roleArn" | "serviceAccount" | "clientId" | "tenantId" | "secret";

/** The settings without an argument at their path. */
type WithoutArgument<Key extends string> = Key extends `${infer Group}.${infer Name}`
  ? Group extends keyof RametRuntimeArgs
    ? Name extends keyof NonNullable<RametRuntimeArgs[Group]>
      ? never
      : Key
    : Key
  : Key extends keyof RametRuntimeArgs
    ? never
    : Key;

type TopOf<Key extends string> = Key extends `${infer Top}.${string}` ? Top : Key;
type FieldOf<Group extends string> =
  KeyOf<"manifests"> extends infer Key ? (Key extends `${Group}.${infer Name}` ? Name : never) : never;

it("has an argument for each setting, or a reason for none", () => {
  expectTypeOf<WithoutArgument<SettingKey>>().toEqualTypeOf<keyof Absent>();
});

it("has no argument that is not a setting, except for those that select what is declared, and annotations", () => {
  type Other = "mode" | "kubeconfig" | "transform";
  expectTypeOf<Exclude<keyof RametRuntimeArgs, TopOf<KeyOf<"manifests">>>>().toEqualTypeOf<Other>();
  type Group = Exclude<Extract<TopOf<Extract<SettingKey, `${string}.${string}`>>, keyof RametRuntimeArgs>, "store">;
  type Unknown = {
    [Each in Group]: Exclude<keyof NonNullable<RametRuntimeArgs[Each]>, FieldOf<Each>>;
  }[Group];
  expectTypeOf<Unknown>().toEqualTypeOf<"annotations">();
});
