/* The text of --link. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/pipeline/replay.h"
#include "run_tests.h"

START_TEST(links_are_read)
{
    static const struct {
        const char *text;
        double latency, rate;
    } good[] = {{"5us,10GB/s", 5000, 10},      {"0ns,inf", 0, 0},
                {"1.5ms,200MB/s", 1.5e6, 0.2}, {"2s,1TB/s", 2e9, 1000},
                {"10s,8000KB/s", 1e10, 0.008}, {".5us,3B/s", 500, 3e-9}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ls_link link = {-1, -1};
        ck_assert_int_eq(ls_link_parse("--link", good[i].text, &link), LS_OK);
        ck_assert_msg(fabs(link.latency_ns - good[i].latency) <= 1e-9 * good[i].latency, "%s",
                      good[i].text);
        ck_assert_msg(fabs(link.bytes_per_ns - good[i].rate) <= 1e-9 * good[i].rate, "%s",
                      good[i].text);
    }
    static const char *const bad[] = {"",
                                      "5us",
                                      ",",
                                      "5us,",
                                      ",10GB/s",
                                      "5,10GB/s",
                                      "5us,10",
                                      "5us,10GB",
                                      "5us,0GB/s",
                                      "-5us,1GB/s",
                                      "5us,-1GB/s",
                                      "nanus,1GB/s",
                                      "5us,nanGB/s",
                                      "infs,1GB/s",
                                      "1e3us,1GB/s",
                                      "5us,1GB/s,",
                                      " 5us,1GB/s",
                                      "5 us,1GB/s",
                                      "11s,1GB/s",
                                      "5us,infGB/s",
                                      "1.2.3us,1GB/s",
                                      "0x5us,1GB/s",
                                      ".us,1GB/s"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ls_link link = {-1, -1};
        ls_error_clear();
        ck_assert_msg(ls_link_parse("--link", bad[i], &link) == LS_ERR_INPUT, "%s", bad[i]);
        ck_assert(link.latency_ns < 0);
        ck_assert(strstr(ls_error_text(), "must be LATENCY,BANDWIDTH") != NULL);
        ck_assert(strncmp(ls_error_text(), "--link ", 7) == 0);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("link_cost", 0);
    tcase_add_test(tcase, links_are_read);
    return run_tests();
}
