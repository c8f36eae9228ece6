/**
 * The exact text that Pulumi writes into the state as the provider of each dynamic resource. Existing states load these subpaths, so
 * they must never change. A changed text shows as a change in every user's next preview.
 */
export const providerTexts = {
  apiKey: providerText("ramet/provider/api-key"),
  namedSnapshot: providerText("ramet/provider/named-snapshot"),
  readiness: providerText("ramet/provider/readiness"),
  sandboxClone: providerText("ramet/provider/sandbox-clone"),
};

function providerText(subpath: string): string {
  return `exports.handler = __f0;

var __provider = {configure: __f1};

function __f1(__0) {
  return (function() {
    with({ this: undefined, arguments: undefined }) {

return function /*configure*/(request) {
    Object.assign(this, require("${subpath}").provider(request.config));
  };

    }
  }).apply(undefined, undefined).apply(this, arguments);
}

function __f0() {
  return (function() {
    with({ provider: __provider, this: undefined, arguments: undefined }) {

return () => provider;

    }
  }).apply(undefined, undefined).apply(this, arguments);
}
`;
}
