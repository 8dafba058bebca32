/* api.h - what every public header needs: the export mark and the C++ guard.
 *
 * The library is built with hidden visibility; LS_API marks the functions that a user may call. */
#ifndef LS_BASE_API_H
#define LS_BASE_API_H

#if defined(__GNUC__)
#define LS_API __attribute__((visibility("default")))
#define LS_MUST_USE __attribute__((warn_unused_result))
#define LS_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define LS_API
#define LS_MUST_USE
#define LS_PRINTF(text, first)
#endif

#ifdef __cplusplus
#define LS_BEGIN_DECLS extern "C" {
#define LS_END_DECLS }
#else
#define LS_BEGIN_DECLS
#define LS_END_DECLS
#endif

#endif
