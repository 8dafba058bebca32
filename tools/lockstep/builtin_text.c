#include "builtin_text.h"

/* A change here changes the digest of every run without --text. */
/* clang-format off */
const char builtin_text[] =
"A sum of many numbers depends on the order in which they are added. On paper it does not: two and\n"
"three is three and two. But a computer keeps only so many digits of each result, drops the rest,\n"
"and what it drops depends on what it had so far. Add the small numbers first and they gather into\n"
"something that counts; add the large one first and each small one falls off its end.\n"
"\n"
"When one machine trains a network it adds in some order, usually from the first to the last. When\n"
"eight machines share the work, each adds its own eighth, and then the eight results are added. The\n"
"digits that are dropped are others, and so the result is another, by very little. Little enough to\n"
"say that it does not matter; too much to say that both are the same. Somebody who wants to know\n"
"whether the shared work was done right can then no longer ask whether the results are equal. He\n"
"has to ask whether they are near enough, and near enough is a guess. A bias that was added once on\n"
"every machine, a gradient that one machine forgot, a mask drawn twice: many a mistake is smaller\n"
"than what such a guess lets pass.\n"
"\n"
"There is another way. Say beforehand in which order every sum is to be added, and let that order\n"
"belong to the network and not to the machines. Think of a tree. Its leaves are the terms; each\n"
"branch adds two halves; the root is the sum. Whoever owns a few neighbouring leaves can add them\n"
"up as far as the branches allow, and hand on the branches that he finished. The rest of the tree\n"
"is added by whoever has both halves. It does not matter who that is, or how many there are, or in\n"
"which order the halves come in. The same branches are added, the same digits are dropped, and the\n"
"result has the same bits: with one machine, with two, with three, with twelve.\n"
"\n"
"Then the question is simple again. Run the training once on one thread, in the plainest code that\n"
"anybody can read. Run it again in pieces, on as many threads as there are pieces. Lay the losses,\n"
"the gradients and the weights side by side, step by step, and compare them bit by bit. Equal means\n"
"right. Different means wrong, and the first place where they differ says where to look.\n";
/* clang-format on */

const size_t builtin_text_bytes = sizeof builtin_text - 1;
