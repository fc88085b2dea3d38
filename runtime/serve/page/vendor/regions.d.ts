declare const Regions: { create(): any };
export default Regions;
