/** A kubeconfig of an unreachable server: a preview must work without the server. */
export const nowhere = `apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{ name: nowhere, context: { cluster: nowhere, user: nobody } }]
clusters: [{ name: nowhere, cluster: { server: "http://127.0.0.1:9" } }]
users: [{ name: nobody, user: {} }]
`;
