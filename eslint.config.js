import js from "@eslint/js";
import tseslint from "typescript-eslint";

/** Optional properties go through `defined({…})`: reports a spread that only repeats its condition, `...(x && { x })`. */
const conditionalSpread = {
  meta: { schema: [] },
  create: (context) => ({
    "SpreadElement > LogicalExpression[operator='&&'][right.type='ObjectExpression']": ({ left, right }) => {
      const text = (node) => context.sourceCode.getText(node);
      const isCheck = left.type === "BinaryExpression" && left.operator === "!==" && text(left.right) === "undefined";
      const subject = text(isCheck ? left.left : left).replaceAll("?.", ".");
      const repeats = right.properties.filter((one) => one.type === "Property" && text(one.value) === subject);
      if (isCheck && right.properties.length === 1 && repeats.length === 1)
        context.report({ node: right, message: "Write `...defined({ property })` (src/base/defined.ts)." });
    },
  }),
};

export default tseslint.config(
  { ignores: ["dist/", "node_modules/", "src/cell/gen/", "**/*.cjs"] },
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: {
        projectService: true,
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      "@typescript-eslint/no-invalid-void-type": ["error", { allowAsThisParameter: true }],
      complexity: ["error", 12],
      "max-params": ["error", 4],
      "no-console": "error",
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "no-restricted-syntax": [
        "error",
        { selector: "ExportDefaultDeclaration", message: "Name what is exported." },
        {
          selector: "SpreadElement > :matches(ObjectExpression, ArrayExpression, TSAsExpression > ArrayExpression)",
          message: "Write the properties or elements one by one; a literal is never spread into another.",
        },
        {
          selector: "ImportDeclaration[source.value='zod'] ImportSpecifier",
          message: 'Write `import * as z from "zod"`: bundlers keep all of zod for the named export.',
        },
      ],
    },
  },
  {
    files: ["{src,components,provider,policy}/**/*.ts"],
    ignores: ["**/*.test.ts"],
    plugins: { ramet: { rules: { "conditional-spread": conditionalSpread } } },
    rules: { "ramet/conditional-spread": "error" },
  },
  { files: ["**/*.config.ts", "*.config.js", "**/*.mjs"], rules: { "no-restricted-syntax": "off" } },
  {
    files: ["**/*.mjs", "*.config.js"],
    ...tseslint.configs.disableTypeChecked,
    languageOptions: {
      ...tseslint.configs.disableTypeChecked.languageOptions,
      globals: { process: "readonly", console: "readonly", URL: "readonly", AbortController: "readonly" },
    },
  },
  { files: ["examples/**", "test/**", "scripts/**", "bin/**"], rules: { "no-console": "off" } },
  // A resource is declared by being made.
  { files: ["examples/*/index.ts"], rules: { "@typescript-eslint/no-unused-vars": "off" } },
  {
    files: ["**/*.test.ts", "test/**"],
    rules: { complexity: "off", "@typescript-eslint/no-non-null-assertion": "off" },
  },
);
