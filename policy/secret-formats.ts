/** How credentials look that begin in a way of their own, so that they are found without guessing. */
export const secretFormats: readonly { what: string; pattern: RegExp }[] = [
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

/** Names of variables that hold a secret, whatever it looks like. */
export const secretName =
  /(?:^|_)(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIALS?)$/i;
