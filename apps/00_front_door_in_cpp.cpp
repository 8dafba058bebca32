// 00_front_door_in_cpp.cpp - the same from C++: a job in a unique_ptr, failures as exceptions.
//
//     c++ 00_front_door_in_cpp.cpp $(pkg-config --cflags --libs lockstep) && ./a.out
#include <lockstep/lockstep.h>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <utility>

namespace {

struct Destroy {
    void operator()(ls_job *job) const { ls_job_destroy(&job); }
};
using Job = std::unique_ptr<ls_job, Destroy>;

void must(ls_status status)
{
    if (status != LS_OK) throw std::runtime_error(ls_error_text());
}

Job make_job(std::initializer_list<std::pair<const char *, const char *>> options)
{
    ls_job *job = nullptr;
    must(ls_job_create(&job));
    Job owned(job);
    for (const auto &[name, value] : options) must(ls_job_set(job, name, value));
    return owned;
}

ls_status print_step(void *name, uint64_t step, double loss, double)
{
    std::printf("%s step %2d  loss %.6f\n", static_cast<const char *>(name), int(step), loss);
    return LS_OK;
}

} // namespace

int main()
try {
    char first[] = "tp 2 x pp 2:", second[] = "tp 3:", file[] = "front_door.safetensors";
    Job job = make_job(
        {{"tp", "2"}, {"pp", "2"}, {"micro-batches", "4"}, {"steps", "5"}, {"save", file}});
    ls_job_on_step(job.get(), print_step, first);
    must(ls_job_train(job.get()));

    job = make_job({{"load", file}, {"tp", "3"}, {"micro-batches", "4"}, {"steps", "10"}});
    ls_job_on_step(job.get(), print_step, second);
    must(ls_job_train(job.get()));
    std::printf("digest %s\n", ls_job_word(job.get(), "digest"));

    ls_job_on_step(job.get(), nullptr, nullptr);
    must(ls_job_verify(job.get()));
    std::printf("%.0f of %.0f layouts bit-exact\n", ls_job_number(job.get(), "bit_exact"),
                ls_job_number(job.get(), "layouts"));
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
