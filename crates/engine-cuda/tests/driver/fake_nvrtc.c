// An NVRTC that compiles nothing: it sees that it is called as NVRTC must be, and gives an image
// that fake_cuda.c takes.
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static const char IMAGE[] = "compiled";
static const char REFUSED[] = "stage.cu(1): error: as the fake says";

struct program { int is_compiled; };

EXPORT int nvrtcGetNumSupportedArchs(int *count) {
    *count = 3;
    return 0;
}

EXPORT int nvrtcGetSupportedArchs(int *capabilities) {
    capabilities[0] = 75;
    capabilities[1] = 80;
    capabilities[2] = 100;
    return 0;
}

EXPORT int nvrtcCreateProgram(struct program** program, const char* source, const char* name,
                              int headers, const char* const* texts, const char* const* names) {
    if (!strstr(source, "KERNEL") || !strstr(name, ".cu") || headers < 2) return 4;
    int found = 0;
    for (int i = 0; i < headers; i++)
        found += !strcmp(names[i], "device.cuh") && strstr(texts[i], "#define KERNEL");
    *program = calloc(1, sizeof **program);
    return found == 1 ? 0 : 4;
}

EXPORT int nvrtcCompileProgram(struct program *program, int options, const char *const *texts) {
    if (getenv("FAKE_NVRTC_REFUSES")) return 6;
    int found = 0;
    for (int i = 0; i < options; i++) {
        found += !strcmp(texts[i], "--gpu-architecture=sm_80") ||
                 !strcmp(texts[i], "--gpu-architecture=compute_100");
        found += !strcmp(texts[i], "--fmad=false");
    }
    program->is_compiled = strstr(texts[0], "sm_") ? 1 : 2;
    return found == 2 ? 0 : 5;
}

EXPORT int nvrtcGetProgramLogSize(struct program *program, size_t *bytes) {
    *bytes = sizeof REFUSED;
    return program ? 0 : 1;
}

EXPORT int nvrtcGetProgramLog(struct program *program, char *text) {
    memcpy(text, REFUSED, sizeof REFUSED);
    return program ? 0 : 1;
}

static int image(struct program *program, int kind, char *to) {
    memcpy(to, IMAGE, sizeof IMAGE);
    return program->is_compiled == kind ? 0 : 3;
}

EXPORT int nvrtcGetCUBINSize(struct program *program, size_t *bytes) {
    *bytes = sizeof IMAGE;
    return program ? 0 : 1;
}

EXPORT int nvrtcGetCUBIN(struct program *program, char *to) { return image(program, 1, to); }

EXPORT int nvrtcGetPTXSize(struct program* program, size_t* bytes) {
    return nvrtcGetCUBINSize(program, bytes);
}

EXPORT int nvrtcGetPTX(struct program *program, char *to) { return image(program, 2, to); }

EXPORT int nvrtcDestroyProgram(struct program **program) {
    free(*program);
    *program = NULL;
    return 0;
}
