import { isIP, isIPv4 } from "node:net";
import { isRegistryHost } from "../api/names/image-reference.ts";
import { engineIdPattern, nodeDirectoryPattern } from "../api/names/system-names.ts";
import { parseDuration } from "../base/duration.ts";
import { RametError } from "../base/errors.ts";
import { parseOriginUrl } from "./gateway-address.ts";
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

/** Checks of flags, which throw `InvalidArgument` with how to write the value. */

export function checkEngine(text: string): void {
  refuse(!engineIdPattern.test(text), "write 12 hex digits, as in status.ramet.engine of a Sandbox or a Checkpoint");
}

export function checkEarlierImage(text: string): void {
  const at = text.indexOf("=");
  const isOne = engineIdPattern.test(text.slice(0, at)) && text.length > at + 1;
  refuse(!isOne, "write it as 3fb1c0a9d2e4=registry.example/ramet-cell:1");
}

/** An IPv4 range, such as `10.0.0.0/8`. */
export function checkRange(text: string): void {
  const [, address = "", bits] = /^([\d.]+)\/(\d{1,2})$/.exec(text) ?? [];
  refuse(!isIPv4(address) || Number(bits) > 32, "write it as 10.0.0.0/8");
}

/** An IPv4 or IPv6 network, such as `10.0.0.0/8` or `2001:db8::/32`. */
export function checkNetwork(text: string): void {
  const [, address = "", bits] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const isOne = isIP(address) !== 0 && Number(bits) <= (isIPv4(address) ? 32 : 128);
  refuse(!isOne, "write it as 10.0.0.0/8 or 2001:db8::/32");
}

export function checkDirectory(text: string): void {
  refuse(!nodeDirectoryPattern.test(text), "write it as /var/lib/ramet/cache");
}

export function checkRegistry(text: string): void {
  refuse(!isRegistryHost(text), "write it as registry.example or registry.example:5000");
}

export function checkAlias(text: string): void {
  refuse(!/^[^=]+=[^=]+$/.test(text), "write it as name=template");
}

export function checkOrigin(text: string): void {
  const isOrigin = parseOriginUrl(text) !== undefined;
  refuse(!isOrigin, "it must be an address without a path, such as http://127.0.0.1:8081");
}

/** 0 means any free port. */
export function checkPort(text: string): void {
  refuse(Number(text) > 65_535, "it must be a port from 0 to 65535");
}

/** A check for a duration of at least a second. */
export function secondOrMore(flag: string): (text: string) => void {
  return (text) => {
    refuse(parseDuration(text, flag) < 1_000, "it must be at least 1s");
  };
}

function refuse(isInvalid: boolean, how: string): void {
  if (isInvalid) throw new RametError("InvalidArgument", how);
}
