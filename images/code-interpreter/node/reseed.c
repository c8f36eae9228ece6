/* Lets Node.js seed OpenSSL's random numbers again. node exports the function. */
#include <stddef.h>
typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
extern int napi_create_function(napi_env, const char *, size_t, napi_value (*)(napi_env, napi_callback_info), void *, napi_value *);
extern int RAND_poll(void);

static napi_value reseed(napi_env env, napi_callback_info info) {
  RAND_poll();
  return NULL;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function = NULL;
  napi_create_function(env, "reseed", (size_t)-1, reseed, NULL, &function);
  return function;
}
