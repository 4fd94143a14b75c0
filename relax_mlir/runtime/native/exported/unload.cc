// What crtbeginS.o gives to libraries that a compiler links: exit handlers of this one run when it
// is unloaded.
extern "C" {
void __cxa_finalize(void*);
extern void* __dso_handle;
__attribute__((visibility("hidden"))) void* __dso_handle = &__dso_handle;
}

__attribute__((destructor)) static void RunExitHandlers() { __cxa_finalize(&__dso_handle); }
