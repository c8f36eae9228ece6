import { checkpointKind } from "../../api/checkpoint.ts";
import type { KindNames } from "../../api/kind.ts";
import { sandboxKind } from "../../api/sandbox.ts";
import { sandboxTemplateKind } from "../../api/sandbox-template.ts";
import { checkpointColumns } from "../checkpoint/columns.ts";
import type { Column } from "../output/render.ts";
import { sandboxColumns } from "../sandbox/columns.ts";
import { templateColumns } from "./template-columns.ts";

/** A kind as the command line speaks of it. */
export interface UserKind {
  noun: UserKindName;
  kind: KindNames;
  columns: readonly Column[];
}

export const userKindNames = ["sandbox", "checkpoint", "template"] as const;
export type UserKindName = (typeof userKindNames)[number];

export const userKinds: Readonly<Record<UserKindName, UserKind>> = {
  sandbox: { noun: "sandbox", kind: sandboxKind, columns: sandboxColumns },
  checkpoint: { noun: "checkpoint", kind: checkpointKind, columns: checkpointColumns },
  template: { noun: "template", kind: sandboxTemplateKind, columns: templateColumns },
};
