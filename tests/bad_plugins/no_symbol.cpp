// A library without the symbol of a plugin.
extern "C" int not_a_plugin();
int not_a_plugin() { return 0; }
