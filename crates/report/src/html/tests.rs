//! Pages as a parser reads them.
