/* wrapped.h - the library's own functions under the names that they have in the objects which are
 * compiled once more (meson.build): a wrapper named ls_... calls the right_... one. */
#ifndef LS_GALLERY_WRAPPED_H
#define LS_GALLERY_WRAPPED_H

#include "fault.h"

/* After the header that declares ls_NAME. */
#define LS_RIGHT(name) extern __typeof__(ls_##name) right_##name

#endif
