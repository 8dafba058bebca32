/* option_names.h - what other programs of the field call an option, for the answer to an unknown
 * one. */
#ifndef LS_BASE_OPTION_NAMES_H
#define LS_BASE_OPTION_NAMES_H

typedef struct ls_other_name {
    const char *name;   /* elsewhere, without the dashes; NULL ends the table */
    const char *option; /* here */
    const char *note;   /* what is different about it; NULL: nothing */
} ls_other_name;

extern const ls_other_name ls_other_names[];

#endif
