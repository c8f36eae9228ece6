import { RametError } from "../../base/errors.ts";

export interface LabelRequirement {
  key: string;
  operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  values?: string[];
}

/**
 * Parses a label selector as `kubectl get -l` takes it: `team=a`, `team!=a`, `team in (a,b)`, `team notin (a,b)`, `team` and `!team`,
 * separated by commas.
 * @param name of the flag or argument, for the error
 * @throws RametError `InvalidArgument`
 */
export function parseLabelSelector(text: string, name: string): LabelRequirement[] {
  // A comma in parentheses does not end a requirement.
  const parts = text.split(/,(?![^(]*\))/).map((part) => part.trim());
  const requirements = parts.map(parseRequirement);
  const at = requirements.indexOf(undefined);
  if (at >= 0 || text.length > mostCharacters) {
    const part = at < 0 ? `more than ${mostCharacters} characters` : JSON.stringify(parts[at]);
    throw new RametError("InvalidArgument", `${name} is not a label selector: ${part}`, {
      hint: "Write it as for kubectl get -l, such as team=a or team in (a,b),!legacy",
    });
  }
  return requirements.filter((one) => one !== undefined);
}

function parseRequirement(part: string): LabelRequirement | undefined {
  return presence(part) ?? equality(part) ?? membership(part);
}

/** `team` and `!team`. */
function presence(part: string): LabelRequirement | undefined {
  const [, not, key = ""] = /^(!?)\s*([^\s=!()]+)$/.exec(part) ?? [];
  return isKey(key) ? { key, operator: not === "!" ? "DoesNotExist" : "Exists" } : undefined;
}

/** `team=a`, `team==a` and `team!=a`. */
function equality(part: string): LabelRequirement | undefined {
  const [, key = "", sign, value = ""] = /^([^\s=!()]+)\s*(==?|!=)\s*([^\s=!()]*)$/.exec(part) ?? [];
  return valued(key, sign === "!=" ? "NotIn" : "In", [value]);
}

/** `team in (a,b)` and `team notin (a,b)`. */
function membership(part: string): LabelRequirement | undefined {
  const [, key = "", word, list = ""] = /^([^\s=!()]+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(part) ?? [];
  const values = list.split(",").map((value) => value.trim());
  return valued(key, word === "in" ? "In" : "NotIn", values);
}

function valued(key: string, operator: "In" | "NotIn", values: string[]): LabelRequirement | undefined {
  return isKey(key) && values.every(isValue) ? { key, operator, values } : undefined;
}

function isKey(text: string): boolean {
  const [name = "", prefix, ...rest] = text.split("/").reverse();
  if (rest.length > 0 || name === "" || !isValue(name)) return false;
  return prefix === undefined || (prefix.length <= 253 && /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(prefix));
}

/** An empty value is valid. (Source: Kubernetes, "Labels and Selectors".) */
function isValue(text: string): boolean {
  return text.length <= 63 && /^([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?$/.test(text);
}

const mostCharacters = 4096;
