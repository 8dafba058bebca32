/* ignore.h - the label of what takes no part in a loss (contract rule 15). */
#ifndef LS_NUMERICS_IGNORE_H
#define LS_NUMERICS_IGNORE_H

enum { LS_IGNORE = -100 };

#endif
