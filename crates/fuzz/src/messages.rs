//! What other processes, hosts, programs and the kernel say.

pub(crate) fn control(bytes: &[u8]) {
    tripmeter_engine::parsers::control_messages(bytes);
}

pub(crate) fn system(bytes: &[u8]) {
    tripmeter_engine::parsers::system_texts(bytes);
}
