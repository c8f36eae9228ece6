import * as z from "zod";
import { defineRule, namedSnapshotOf } from "../rule.ts";
import { resultOr } from "../../src/base/errors.ts";

/**
 * Everyone who can read the named snapshot can read its recipe. It is also in the state, in previews and in the memory
 * of every clone.
 */
export const recipeSecrets = defineRule({
  name: "ramet-recipe-secrets",
  description: "Recipes must not contain secrets in clear text.",
  remedy: 'Copy it as a file that is stored in a Secret: copy({ path, secret: config.requireSecret("token") }).',
  settings: {
    patterns: z
      .array(
        z
          .string()
          .refine((text) => resultOr(() => new RegExp(text), undefined) !== undefined, "is not a regular expression"),
      )
      .default([])
      .describe("Additional regular expressions for secrets."),
  },
  validate: (resource, { patterns }) => {
    const snapshot = namedSnapshotOf(resource);
    if (snapshot === undefined) return [];
    const formats = [
      ...secretFormats,
      ...patterns.map((pattern, at) => ({
        what: `a match of pattern ${at + 1} of the settings`,
        pattern: new RegExp(pattern),
      })),
    ];
    const { recipe } = WithRecipe.parse(snapshot);
    // Pulumi tracks values that come from a secret.
    const marked =
      snapshot["recipeHoldsSecrets"] === true ? ["a step contains a value that the program marks as secret"] : [];
    return [
      ...marked,
      ...recipe.flatMap((step, at) => validateStep(step).map((what) => `step ${at + 1} contains ${what}`)),
    ];

    function validateStep(step: Step): string[] {
      const texts = textsOf(step);
      const found = formats.filter(({ pattern }) => texts.some((text) => pattern.test(text))).map(({ what }) => what);
      const named = Object.entries(step.env ?? {})
        .filter(([name, value]) => secretName.test(name) && value !== "")
        .map(([name]) => `a value of the variable ${name}`);
      return [...found, ...named];
    }
  },
});

/** All texts of a step, except references to Secrets and ConfigMaps. */
function textsOf({ run, start, copy, waitFor, env = {} }: Step): string[] {
  const given = [run, start, copy?.content, copy?.url, waitFor?.command, ...Object.values(env)];
  return given.filter((text) => text !== undefined);
}

const Step = z.object({
  run: z.string().optional(),
  start: z.string().optional(),
  copy: z.object({ content: z.string().optional(), url: z.string().optional() }).optional(),
  waitFor: z.object({ command: z.string().optional() }).optional(),
  env: z.record(z.string(), z.string()).optional(),
});
type Step = z.output<typeof Step>;
const WithRecipe = z.object({ recipe: z.array(Step).default([]) });

/** Credentials with a distinctive prefix, which can be detected reliably. */
const secretFormats: readonly { what: string; pattern: RegExp }[] = [
  { what: "a private key", pattern: /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----/ },
  { what: "a password in a URL", pattern: /\b[a-z][a-z0-9+.-]*:\/\/[^\s/:@'"$]+:(?!\$)[^\s/@'"]+@/i },
  // https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html: long-term and temporary access keys
  { what: "an access key of AWS", pattern: /\b(?:AKIA|ASIA)[A-Z2-7]{16}\b/ },
  { what: "an API key of Google", pattern: /\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])/ },
  { what: "an account key of Azure Storage", pattern: /\bAccountKey=[A-Za-z0-9+/]{40,}={0,2}/ },
  // https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
  { what: "a token of GitHub", pattern: /\b(?:gh[oprsu]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})/ },
  // https://docs.gitlab.com/security/tokens/#token-prefixes
  { what: "a token of GitLab", pattern: /\bgl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{20,}/ },
  { what: "a token of Slack", pattern: /\bxox[abeoprs]-[A-Za-z0-9-]{10,}/ },
  { what: "a token of npm", pattern: /\bnpm_[A-Za-z0-9]{36}\b/ },
  { what: "a token of PyPI", pattern: /\bpypi-AgE[A-Za-z0-9_-]{50,}/ },
  { what: "an API key that begins with sk-", pattern: /\bsk-(?:[a-z]+[a-z0-9]*-)*[A-Za-z0-9_]{32,}/ },
  { what: "a signed token (JWT)", pattern: /\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}/ },
];

/** Names of environment variables that hold secrets of any format. */
const secretName = /(?:^|_)(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIALS?)$/i;
