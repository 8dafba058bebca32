#include "job/builtin_text.h"

/* A change here changes the digest of every run without --text. */
/* clang-format off */
const char ls_builtin_text[] =
    "A sum of many numbers depends on the order in which they are added. On paper it does\n"
    "not: two and three is three and two. But a computer keeps only so many digits of each\n"
    "result, drops the rest, and what it drops depends on what it had so far. Add the small\n"
    "numbers first and they gather into something that counts; add the large one first and\n"
    "each small one falls off its end.\n"
    "\n"
    "When one machine trains a network it adds in some order, usually from the first to the\n"
    "last. When eight machines share the work, each adds its own eighth, and then the eight\n"
    "results are added. The digits that are dropped are others, and so the result is another,\n"
    "by very little. Little enough to say that it does not matter; too much to say that both\n"
    "are the same. Somebody who wants to know whether the shared work was done right can then\n"
    "no longer ask whether the results are equal. He has to ask whether they are near enough,\n"
    "and near enough is a guess. A bias that was added once on every machine, a gradient that\n"
    "one machine forgot, a mask drawn twice: many a mistake is smaller than what such a guess\n"
    "lets pass.\n"
    "\n"
    "There is another way. Say beforehand in which order every sum is to be added, and let\n"
    "that order belong to the network and not to the machines. Think of a tree. Its leaves\n"
    "are the terms; each branch adds two halves; the root is the sum. Whoever owns a few\n"
    "neighbouring leaves can add them up as far as the branches allow, and hand on the\n"
    "branches that he finished. The rest of the tree is added by whoever has both halves. It\n"
    "does not matter who that is, or how many there are, or in which order the halves come\n"
    "in. The same branches are added, the same digits are dropped, and the result has the\n"
    "same bits: with one machine, with two, with three, with twelve.\n"
    "\n"
    "Then the question is simple again. Run the training once on one thread, in the plainest\n"
    "code that anybody can read. Run it again in pieces, on as many threads as there are\n"
    "pieces. Lay the losses, the gradients and the weights side by side, step by step, and\n"
    "compare them bit by bit. Equal means right. Different means wrong, and the first place\n"
    "where they differ says where to look.\n";
/* clang-format on */

const size_t ls_builtin_text_bytes = sizeof ls_builtin_text - 1;
