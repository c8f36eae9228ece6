/**
 * `$(NAME)` in a command, an argument or a value, as Kubernetes expands it: a name that is not known stays as it is
 * written, and `$$` is one `$`. (Kubernetes: "Define Dependent Environment Variables".)
 * @param lookup the value of a variable; undefined: not known
 */
export function expandVariables(text: string, lookup: (name: string) => string | undefined): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (reference, name: string | undefined) =>
    name === undefined ? "$" : (lookup(name) ?? reference),
  );
}
