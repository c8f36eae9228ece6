import type * as schemas from "./setting-schemas.ts";

/** `on` and `off` have no value: `on` is true where its flag is given, `off` false. */
export type SettingKind = "text" | "number" | "list" | "on" | "off";

/** One setting of a server or an installation. */
export interface Setting<Kind extends SettingKind = SettingKind> extends SettingFlag {
  kind: Kind;
  /** Validates the value of an installation, or each item of its list. A name, because the command line starts without zod. */
  schema?: keyof typeof schemas;
  /** Validates the text of the flag, or each item of its list, before any other. @throws RametError */
  check?: (text: string) => unknown;
  choices?: readonly string[];
  /** Whether `ramet manifests` requires it. */
  isRequired?: boolean;
  /** The flag of `ramet manifests` where it differs from that of the server. */
  manifests?: Partial<SettingFlag>;
}

interface SettingFlag {
  /** As commander reads it: `--egress-allow <rule...>`. */
  flag: string;
  help: string;
  default?: string | number;
  /** The attributes of flags with which it cannot be combined. */
  conflicts?: readonly string[];
}

type Others = Partial<Omit<Setting, "kind" | "flag" | "help">>;

export const text = settingOf("text");
export const number = settingOf("number");
export const list = settingOf("list");
export const on = settingOf("on");
export const off = settingOf("off");

function settingOf<Kind extends SettingKind>(kind: Kind) {
  return <const Given extends Others = object>(flag: string, help: string, others?: Given) =>
    ({ kind, flag, help, ...others }) as Setting<Kind> & Given;
}
