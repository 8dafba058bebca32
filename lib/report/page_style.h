/* page_style.h - how the page looks, light and dark. */
#ifndef LS_REPORT_PAGE_STYLE_H
#define LS_REPORT_PAGE_STYLE_H

extern const char ls_page_style[];

#endif
